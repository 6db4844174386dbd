package outcome

import "github.com/belljar/belljar"

// mostHosts is how many rows a report has.
const mostHosts = 100

// AddEgress adds the report of an earlier part of a run, from a previous process; nil is none.
func AddEgress(earlier *belljar.EgressReport, now belljar.EgressReport) belljar.EgressReport {
	if earlier == nil {
		return now
	}
	sum := belljar.EgressReport{
		Allowed: earlier.Allowed + now.Allowed, Denied: earlier.Denied + now.Denied,
		BytesIn: earlier.BytesIn + now.BytesIn, BytesOut: earlier.BytesOut + now.BytesOut, Hosts: append([]belljar.EgressHost{}, earlier.Hosts...),
		Presets: earlier.Presets,
	}
	type key struct{ host, rule, reason string }
	at := map[key]int{}
	for i, h := range sum.Hosts {
		at[key{h.Host, h.Rule, h.Reason}] = i
	}
	for _, h := range now.Hosts {
		i, known := at[key{h.Host, h.Rule, h.Reason}]
		switch {
		case known:
			old := &sum.Hosts[i]
			if h.IP != "" {
				old.IP = h.IP
			}
			old.Allowed, old.Denied = old.Allowed+h.Allowed, old.Denied+h.Denied
			old.BytesIn, old.BytesOut = old.BytesIn+h.BytesIn, old.BytesOut+h.BytesOut
		case len(sum.Hosts) < mostHosts:
			sum.Hosts = append(sum.Hosts, h)
		}
	}
	return sum
}
