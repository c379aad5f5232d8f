# SPDX-License-Identifier: Apache-2.0
"""Arrivals and departures of guests on a fleet, scheduled as nova would."""
