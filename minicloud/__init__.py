# SPDX-License-Identifier: Apache-2.0
"""A real OpenStack cloud on one machine: Keystone, Placement, Glance, Nova.

Nothing but the standard library is imported here, since this is what makes
the virtual environment that everything else lives in.
"""
