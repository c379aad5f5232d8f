# SPDX-License-Identifier: Apache-2.0
"""What nova's services would make of flavors and options, without them."""
