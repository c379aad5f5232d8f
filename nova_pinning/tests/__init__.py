# SPDX-License-Identifier: Apache-2.0
import signal

# A shell has what it starts in the background ignore Ctrl-C, and so do all
# that this starts in turn. Tests that interrupt a program count on it to end.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
