# SPDX-License-Identifier: Apache-2.0
"""The flavor toolkit: a catalogue of what is sold, translated and checked."""
