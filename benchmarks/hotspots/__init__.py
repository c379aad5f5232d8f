# SPDX-License-Identifier: Apache-2.0
"""Several nova-schedulers that choose the same host: how often, and the cure.

An emulation of Placement and of nova-compute's claim, around the real code of
nova-scheduler.
"""
