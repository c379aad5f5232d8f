# SPDX-License-Identifier: Apache-2.0
"""Between nova's objects and the engine's; imports nova, so load it late."""
