//go:build linux

package e2e

import (
	"io/fs"
	"net/http"
	"path/filepath"
	"testing"
)

// kept returns the size of the files below a folder, in bytes.
func kept(t *testing.T, dir string) (n int64) {
	t.Helper()
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			n += info.Size()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestLogQuota has one user write logs endlessly: they are refused when the quota is full and take no more of the disk, also after
// the server is killed, and another user can continue.
func TestLogQuota(t *testing.T) {
	const most = 2 << 20
	data := t.TempDir()
	args := []string{"--set", "quota_log_mb=2"}
	s := serve(t, data, args...)
	mallory, ann := "X-API-KEY: "+s.user("mallory"), "X-API-KEY: "+s.user("ann")
	used := func(who string) int64 {
		t.Helper()
		_, me := s.ask(http.MethodGet, api+"/me", nil, who)
		n, _ := me["used"].(map[string]any)["log_bytes"].(float64)
		return int64(n)
	}
	flood := func() (int, map[string]any) {
		return s.ask(http.MethodPost, api+"/runs?wait=true", oneShot("head -c 1500000 /dev/urandom"), mallory)
	}
	if status, run := flood(); status != http.StatusOK || run["truncated"] == true {
		t.Fatalf("the first: %d %v", status, run)
	}
	_, under := s.ask(http.MethodPost, api+"/runs", oneShot("head -c 300000 /dev/zero; echo begun; while [ ! -e stop ]; do sleep 0.1; done"), mallory)
	id, _ := under["id"].(string)
	until(t, "what it prints is counted", func() bool { return used(mallory) > 1_800_000 })
	s.kill()

	s = serve(t, data, args...)
	if got := used(mallory); got < 1_800_000 || got > most {
		t.Errorf("after the kill %d bytes are counted", got)
	}
	if status, run := flood(); status != http.StatusOK || run["truncated"] != true || !holds(run, "quota of log bytes") {
		t.Errorf("the last: %d %v %v", status, run["truncated"], run["warnings"])
	}
	for range 3 {
		status, answer := flood()
		if status != http.StatusTooManyRequests || !holds(answer, "quota_exceeded") || !holds(answer, "log_mb") || !holds(answer, "24 hours") {
			t.Errorf("when the quota is full: %d %v", status, answer)
		}
	}
	if status, run := s.ask(http.MethodPost, api+"/runs?wait=true", oneShot("head -c 100000 /dev/zero"), ann); status != http.StatusOK || run["phase"] != "completed" || run["truncated"] == true {
		t.Errorf("another user: %d %v", status, run)
	}
	if status, answer := s.ask(http.MethodPost, api+"/runs/"+id+"/cancel", nil, mallory); status >= 300 {
		t.Errorf("cancel: %d %v", status, answer)
	}
	until(t, "it has ended", func() bool {
		_, run := s.ask(http.MethodGet, api+"/runs/"+id, nil, mallory)
		return run["finished_at"] != nil
	})
	counted, there := used(mallory)+used(ann), kept(t, filepath.Join(data, "logs"))
	if counted != there || there > most+200_000 {
		t.Errorf("%d bytes are counted, the files hold %d", counted, there)
	}
	s.kill()
	s = serve(t, data, args...)
	if again := used(mallory) + used(ann); again != counted {
		t.Errorf("%d bytes are counted after another kill, %d before", again, counted)
	}
}
