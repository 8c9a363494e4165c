# SPDX-License-Identifier: BSD-3-Clause
"""The command line of the lab: its arguments and subcommands."""

import argparse
import contextlib
import os
import subprocess
import sys

from . import interrupts, launch, record, wire
from .command import LabError, check_machine
from .lab import Lab
from .spec import NIC_KINDS, TOPOLOGIES

EPILOG = """examples:
  lab mpirun --hosts 4 --mtu 9000 --loss 1% -- -np 4 --mca btl rawe,self ./prog
  lab up --name two --rate 1gbit; lab shell two h1; lab fault two loss 10%; lab down two
  lab mpirun --on two -- -np 2 --mca btl tcp,self ./prog

Each host is called <lab>-h0, <lab>-h1, ... and has the data NICs eth0, eth1, ... and a NIC ctl0 on
a separate network that mpirun uses for itself. Faults never touch ctl0. Loss drops frames on their
way into each host; with --nic whole, a batch of up to 64 kB counts as one frame. A wire handles
frames one by one, as a cable does, so its NICs are not whole; its faults are KEY=VALUE with commas:
delay=1ms reorder=20%:1ms duplicate=5% loss=1% burst=0.1%:50ms (or :20, frames) corrupt=1%
truncate=1% pad=1% lengthen=1% repeat-changed=1%
blackout=5s (or 50ms/1s, repeated) rate=1gbit buffer=64k mtu=1400 seed=7, or none to end them.
`lab counters` shows its counters. A rate is enforced by tbf on every NIC and switch port: bucket
0.1 ms of the rate but at least two full frames, queue --buffer bytes at a switch port, 1000 full
frames at a host's NIC."""


def _add_shape(parser):
    add = parser.add_argument_group("shape of the lab").add_argument
    add("--hosts", type=int, metavar="N", help="virtual hosts (default 2)")
    text = "pair: two hosts wired directly; switch: a bridge; wire: a switch in user space, for "
    text += "--wire (default: pair for 2 hosts)"
    add("--topology", choices=TOPOLOGIES, help=text)
    add("--mtu", type=int, metavar="BYTES", help="of every data NIC (default 1500)")
    add("--nics", type=int, metavar="N", help="data NICs per host (default 1)")
    text = "whole: batches (TSO, GSO) travel uncut; cut: cut by the sender, merged by the "
    text += "receiver (GRO), as with real NICs; plain: no offloads (default whole; at a wire plain)"
    add("--nic", choices=NIC_KINDS, help=text)
    add("--loss", metavar="PCT", help="frames lost in each direction, as 1%%")
    add("--rate", metavar="RATE", help="line rate, as 100mbit or 1gbit")
    add("--buffer", type=int, metavar="BYTES", help="queue of a switch port when --rate is given")
    text = "what the wire does to frames on their way into each host, as delay=1ms,reorder=20%%"
    add("--wire", metavar="FAULTS", help=text)
    add("--name", help="name of the lab (default: a random one)")


def _shape_of(options):
    names = ("hosts", "topology", "mtu", "nics", "nic", "loss", "rate", "buffer", "wire", "name")
    return {name: getattr(options, name) for name in names if getattr(options, name) is not None}


def _strip_dashes(words):
    return words[1:] if words[:1] == ["--"] else words


def _choose(name):
    """Return the named lab, or the only one that is up."""
    if name is not None:
        return Lab.attach(name)
    up = [one for one in record.names() if record.state(record.load(one)) == "up"]
    if len(up) != 1:
        listing = ", ".join(up) or "none"
        raise LabError(f"which lab? name one; up at the moment: {listing}")
    return Lab.attach(up[0])


def _print_lab(lab):
    spec = lab.spec
    print(
        f"lab {lab.name}: {spec.hosts} hosts, {spec.topology}, MTU {spec.mtu}, "
        f"{spec.nics} NIC{'s' if spec.nics > 1 else ''}, "
        f"batches {spec.nic}, loss {spec.loss:g}%, rate {spec.rate or '-'}"
    )
    for host in lab.hosts:
        nics = "  ".join(f"{nic.device} {nic.mac} {nic.address}" for nic in host.nics)
        print(f"  {host.name}  (netns {host.netns})  {nics}")


def _up(options):
    lab = Lab(build=options.build, **_shape_of(options)).up()
    try:
        lab.keep()
    except BaseException:
        lab.down()
        raise
    _print_lab(lab)
    print(f"remove it with: lab down {lab.name}")
    return 0


def _down(options):
    names = options.names
    if options.stale:
        names = [name for name in record.names() if record.state(record.load(name)) == "stale"]
        if not names:
            print("no stale lab")
    elif not names:
        names = [_choose(None).name]
    for name in names:
        content = record.load(name)
        if record.state(content) == "running":
            raise LabError(
                f"lab {name} belongs to process {content['owner_pid']}, which is running; end "
                "that process, it removes its lab"
            )
        with interrupts.shield():
            Lab.attach(name).down()
        print(f"lab {name} removed")
    return 0


def _status(_options):
    names = record.names()
    if not names:
        print("no lab")
    for name in names:
        content = record.load(name)
        state = record.state(content)
        owner = f", owner process {content['owner_pid']}" if state == "running" else ""
        lab = Lab.attach(name)
        print(f"[{state}{owner}, {len(lab.processes())} processes on its hosts]")
        _print_lab(lab)
        if state == "stale":
            print("  its owner died; remove it with: lab down --stale")
    return 0


def _shell(options):
    lab = _choose(options.name)
    return subprocess.call(lab.host_command(options.host, [os.environ.get("SHELL", "/bin/sh")]))


def _exec(options):
    lab = _choose(options.name)
    words = _strip_dashes(options.command)
    if not words:
        raise LabError("lab exec needs a command: lab exec NAME HOST -- COMMAND...")
    return launch.exit_status(subprocess.call(lab.host_command(options.host, words)))


def _mpirun(options):
    arguments = _strip_dashes(options.arguments)
    if not arguments:
        raise LabError("lab mpirun needs mpirun's arguments behind --, e.g. -- -np 2 ./prog")
    shape = _shape_of(options)
    if options.on is not None and shape:
        given = ", ".join(f"--{name}" for name in shape)
        raise LabError(f"{given}: the lab of --on {options.on} has its shape already")
    build = options.build or launch.find_build()
    lab = Lab.attach(options.on) if options.on is not None else Lab(build=build, **shape).up()
    try:
        settings = {"timeout": options.timeout, "build": build, "pin": options.pin}
        status = launch.run_attached(lab, arguments, exclusive=options.on is None, **settings)
    finally:
        if options.on is None:
            with interrupts.shield():
                lab.down()
    if status == launch.TIMEOUT_STATUS and options.timeout is not None:
        print(
            f"lab: mpirun on lab {lab.name} did not end within {options.timeout:g} seconds and "
            "was stopped; see what its ranks were doing, or give it longer with --timeout",
            file=sys.stderr,
        )
    return status


def _fault(options):
    lab = _choose(options.name)
    verb, words = options.verb, options.words

    def take(count, usage):
        if len(words) != count:
            raise LabError(f"usage: lab fault NAME {usage}")
        return words

    if verb == "loss":
        lab.set_loss(take(1, "loss PCT [--host H] [--nic N]")[0], options.host, options.nic)
    elif verb == "rate":
        rate = take(1, "rate RATE|none")[0]
        lab.set_rate(None if rate == "none" else rate)
    elif verb == "link":
        host, state = take(2, "link HOST up|down [--nic N]")
        if state not in ("up", "down"):
            raise LabError(f"a link goes up or down, not {state!r}")
        (lab.link_up if state == "up" else lab.link_down)(host, options.nic or 0)
    elif verb == "mtu":
        host, mtu = take(2, "mtu HOST BYTES [--nic N]")
        lab.set_mtu(host, int(mtu), options.nic or 0)
    elif verb == "address":
        host, mac = take(2, "address HOST MAC [--nic N]")
        lab.set_address(host, mac, options.nic or 0)
    elif verb == "delete":
        lab.delete_nic(take(1, "delete HOST [--nic N]")[0], options.nic or 0)
    elif verb == "wire":
        if not words:
            take(1, "wire FAULTS [--host H] [--nic N] [--direction in|out|both]")
        lab.set_wire(" ".join(words), options.host, options.nic, options.direction)
    elif verb in ("pause", "resume"):
        host = take(1, f"{verb} HOST")[0]
        (lab.pause if verb == "pause" else lab.resume)(host)
    elif verb == "blackhole":
        receiver, sender = take(2, "blackhole RECEIVER SENDER [--ethertype 0x88b5]")
        lab.blackhole(receiver, sender, options.ethertype)
    else:
        lab.end_blackhole(take(1, "unblackhole RECEIVER")[0])
    return 0


def _counters(options):
    for key, values in _choose(options.name).wire_counters().items():
        where = " ".join(key) if key is not None else "wire"
        # Omit zeros, which would hide the rest.
        print(f"{where}:", *(f"{name}={value}" for name, value in values.items() if value))
    return 0


def _capture(options):
    lab = _choose(options.name)
    words = _strip_dashes(options.expression)
    capture = lab.capture(options.host, options.file, words, options.nic, options.count)
    print(f"lab: capturing into {options.file}; end it with Ctrl-C", file=sys.stderr)
    with contextlib.suppress(interrupts.Interrupted):
        capture.wait()
    capture.stop()
    print(capture.said.strip(), file=sys.stderr)
    return launch.exit_status(capture.poll())


def _parser():
    parser = argparse.ArgumentParser(
        prog="lab",
        description="Virtual hosts on this machine, and mpirun on them.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="action", required=True, metavar="COMMAND")

    one = commands.add_parser("mpirun", help="create a lab, run mpirun on it, remove the lab")
    _add_shape(one)
    one.add_argument("--on", metavar="NAME", help="use this lab, made by `lab up`, and leave it")
    text = "stop it after this time, with status 124"
    one.add_argument("--timeout", type=float, metavar="SECONDS", help=text)
    text = "one rank per core, if there are enough cores (default)"
    one.add_argument("--pin", action=argparse.BooleanOptionalAction, default=True, help=text)
    one.add_argument("--build", metavar="DIR", help="build directory (default ./build, if built)")
    one.add_argument("arguments", nargs=argparse.REMAINDER, metavar="-- MPIRUN ARGUMENTS")
    one.set_defaults(call=_mpirun)

    one = commands.add_parser("up", help="create a lab and leave it")
    _add_shape(one)
    one.add_argument("--build", metavar="DIR", help="build directory, for a wire (default ./build)")
    one.set_defaults(call=_up)

    one = commands.add_parser("down", help="remove a lab and end its processes")
    one.add_argument("names", nargs="*", metavar="NAME")
    one.add_argument("--stale", action="store_true", help="all labs whose owner died")
    one.set_defaults(call=_down)

    one = commands.add_parser("status", help="list all labs of this machine")
    one.set_defaults(call=_status)

    one = commands.add_parser("shell", help="a shell on a host of a lab")
    one.add_argument("name", nargs="?", help="lab (default: the only one that is up)")
    one.add_argument("host", nargs="?", default="h0", help="host (default h0)")
    one.set_defaults(call=_shell)

    one = commands.add_parser("exec", help="run a command on a host of a lab")
    one.add_argument("name")
    one.add_argument("host")
    one.add_argument("command", nargs=argparse.REMAINDER, metavar="-- COMMAND")
    one.set_defaults(call=_exec)

    one = commands.add_parser("fault", help="inject faults into a running lab")
    one.add_argument("name")
    verbs = ("loss", "wire", "rate", "link", "mtu", "pause", "resume", "delete", "blackhole")
    verbs += ("unblackhole", "address")
    one.add_argument("verb", choices=verbs)
    one.add_argument("words", nargs="*", help="arguments of the verb; without them, its usage")
    one.add_argument("--host", help="only this host (loss, wire)")
    one.add_argument("--nic", type=int, help="NIC number (default: 0; loss, wire: all)")
    text = "of the wire: to the host (in, default), from it (out), or both"
    one.add_argument("--direction", choices=wire.DIRECTIONS, default="in", help=text)
    one.add_argument("--ethertype", type=lambda text: int(text, 0), help="only this EtherType")
    one.set_defaults(call=_fault)

    one = commands.add_parser("counters", help="show the counters of a lab's wire")
    one.add_argument("name", nargs="?", help="lab (default: the only one that is up)")
    one.set_defaults(call=_counters)

    one = commands.add_parser("capture", help="tcpdump on a host of a lab, into a pcap file")
    one.add_argument("name")
    one.add_argument("host")
    one.add_argument("file")
    one.add_argument("--nic", type=int, default=0)
    one.add_argument("--count", type=int, metavar="N", help="end after N frames")
    one.add_argument("expression", nargs=argparse.REMAINDER, metavar="-- EXPRESSION")
    one.set_defaults(call=_capture)
    return parser


def main(argv=None):
    """Run the command line; returns the exit status."""
    options = _parser().parse_args(argv)
    interrupts.install()
    try:
        check_machine()
        return options.call(options)
    except LabError as error:
        print(f"lab: {error}", file=sys.stderr)
        return 1
    except interrupts.Interrupted as interrupted:
        print(f"lab: {interrupted}", file=sys.stderr)
        return 128 + interrupted.number
