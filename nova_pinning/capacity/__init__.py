# SPDX-License-Identifier: Apache-2.0


"""How much can still be sold of a fleet."""
