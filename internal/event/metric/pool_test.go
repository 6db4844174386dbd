package metric

import (
	"testing"
	"time"
)

func TestPool(t *testing.T) {
	c := newCounter()
	now := Pool{Size: 4}
	c.WatchPool("native", func() Pool { return now })
	if got := value(t, c, "sandbox_pool_size{runtime=native}"); got != 4 {
		t.Errorf("size is %v", got)
	}
	now = Pool{
		Size: 4, Ready: 3, Kinds: 2, Hits: 10, Misses: 5, Births: 20, BirthTime: 3 * time.Second, Failures: 1,
		Drops: map[string]uint64{"aged": 7, "died": 0},
	}
	for series, want := range map[string]float64{
		"sandbox_pool_available{runtime=native}":               3,
		"sandbox_pool_kinds{runtime=native}":                   2,
		"sandbox_pool_refill_seconds_sum{runtime=native}":      3,
		"sandbox_pool_refill_seconds_count{runtime=native}":    20,
		"sandbox_pool_refill_failures_total{runtime=native}":   1,
		"sandbox_pool_drops_total{runtime=native,reason=aged}": 7,
		"sandbox_pool_drops_total{runtime=native,reason=died}": 0,
	} {
		if got := value(t, c, series); got != want {
			t.Errorf("%s is %v, want %v", series, got, want)
		}
	}
	all, err := c.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	claims := map[string]float64{}
	for _, s := range all["sandbox_pool_claims_total"] {
		claims[s.Labels["result"]] = s.Value
	}
	if claims["hit"] != 10 || claims["miss"] != 5 {
		t.Errorf("claims %v", claims)
	}
}
