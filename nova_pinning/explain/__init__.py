# SPDX-License-Identifier: Apache-2.0
"""Why a guest does not fit on the hosts of a fleet, and what would help."""
