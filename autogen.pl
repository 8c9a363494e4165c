#!/usr/bin/env perl
# SPDX-License-Identifier: BSD-3-Clause
#
# Makes ./configure out of configure.ac. Needed after a git clone, not after unpacking a tarball.

use strict;
use warnings;

use Cwd qw(abs_path);
use File::Basename qw(dirname);
use File::Path qw(make_path);

# Program, lowest version that is known to do, and the Debian package it comes in.
my @tools = (
    ['autoconf', '2.69', 'autoconf'],
    ['automake', '1.15', 'automake'],
    ['libtoolize', '2.4.6', 'libtool'],
    ['m4', '1.4', 'm4'],
);

sub version_at_least {
    my ($have, $want) = @_;
    my @have = split /\./, $have;
    my @want = split /\./, $want;
    for my $i (0 .. $#want) {
        my $difference = ($have[$i] // 0) <=> $want[$i];
        return $difference > 0 if $difference != 0;
    }
    return 1;
}

my @problems;
my %packages;
for (@tools) {
    my ($program, $wanted, $package) = @$_;
    my $output = `$program --version 2>/dev/null` // '';
    my ($version) = $output =~ /(\d+(?:\.\d+)+)/;
    if (!defined $version) {
        push @problems, "$program is not on PATH";
        $packages{$package} = 1;
    } elsif (!version_at_least($version, $wanted)) {
        push @problems, "$program is version $version; $wanted or later is needed";
        $packages{$package} = 1;
    }
}
if (@problems) {
    print STDERR "autogen.pl cannot make ./configure:\n";
    print STDERR "  $_\n" for @problems;
    print STDERR 'On Debian: apt-get install ' . join(' ', sort keys %packages) . "\n";
    exit 1;
}

chdir dirname(abs_path(__FILE__)) or die "autogen.pl: cannot enter its own directory: $!\n";
make_path('config/aux');

if (system('autoreconf', '--force', '--install') != 0) {
    print STDERR "autogen.pl: autoreconf failed; its output above tells why.\n";
    exit 1;
}
print "Done. Next: ./configure && make\n";
