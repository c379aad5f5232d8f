# SPDX-License-Identifier: Apache-2.0
"""Where instances run: the host, containers, guests, a cloud."""
