-- SPDX-License-Identifier: Apache-2.0
-- What wrk prints at its end: rates and times in one unit each.
done = function(summary, latency, requests)
    local errors = summary.errors
    local good = summary.requests - errors.status
    io.write(string.format("requests: %.2f\n",
                           good / (summary.duration / 1e6)))
    io.write(string.format("latency mean: %.3f\n", latency.mean / 1e3))
    io.write(string.format("latency 99%%: %.3f\n",
                           latency:percentile(99) / 1e3))
    io.write(string.format("failures: %d\n", errors.status + errors.connect
                           + errors.read + errors.write + errors.timeout))
end
