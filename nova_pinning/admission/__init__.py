# SPDX-License-Identifier: Apache-2.0
"""May this guest be on this host, and what does it use there.

The word is kubelet's. What nova asks in turn is asked here: Placement for
allocation candidates, the scheduler's filters, and the claim. Nothing that a
guest asks for is left out of an answer: what is not known of a host, of a
request or of nova's settings makes the answer undecided, and is named.
"""
