# SPDX-License-Identifier: Apache-2.0
"""Files that people write: read, checked, and replaced as a whole."""
