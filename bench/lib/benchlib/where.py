# SPDX-License-Identifier: BSD-3-Clause
"""Gets packages, component and hosts ready for runs."""

from imbruns import places, prepare


def make_ready(options, peers, say, groups=("build", "bench")):
    """Install and build what is missing; the reasons why transports cannot be measured."""
    if not options.no_build:
        prepare.install_packages(say, groups)
        if "rawe" in peers and not prepare.rawe_installed():
            prepare.build(options.build, say)
    missing = prepare.missing_peers(peers, options.build)
    for peer, reason in missing.items():
        say(f"NOT AVAILABLE: {peer}: {reason}")
    if len(missing) == len(peers):
        raise prepare.PrepareError("none of the transports asked for is available")
    return missing


def place_of(setup, hosts, build):
    """The place for runs on so many virtual hosts, or on those of the setup's hostfile."""
    component = build if (build / prepare.COMPONENT).exists() else None
    if setup["hostfile"] is None:
        return places.LabPlace({"hosts": hosts, **setup["shape"]}, component)
    if prepare.rawe_installed():
        component = None
    return places.HostfilePlace(
        setup["hostfile"], setup["interface"], component, setup["mpirun_args"]
    )
