package metric

import (
	"strings"

	"github.com/belljar/belljar/internal/event"
)

// Snapshot returns the metrics for admin/metrics: by name, with a series for each set of labels. A histogram has two series,
// its sum and its count.
func (c *Counter) Snapshot() (map[string][]event.Series, error) {
	families, err := c.registry.Gather()
	if err != nil {
		return nil, err
	}
	all := map[string][]event.Series{}
	for _, f := range families {
		name := f.GetName()
		if !strings.HasPrefix(name, "sandbox_") {
			continue // metrics of the Go runtime
		}
		for _, m := range f.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			add := func(name string, value float64) {
				all[name] = append(all[name], event.Series{Labels: labels, Value: value})
			}
			switch h := m.GetHistogram(); {
			case h != nil:
				add(name+"_sum", h.GetSampleSum())
				add(name+"_count", float64(h.GetSampleCount()))
			case m.GetCounter() != nil:
				add(name, m.GetCounter().GetValue())
			default:
				add(name, m.GetGauge().GetValue())
			}
		}
	}
	return all, nil
}
