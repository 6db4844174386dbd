//go:build linux

package examples

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/client"
	"github.com/belljar/belljar/test/served"
)

// compiled puts the workflow's program, which is built once, into a copy of its folder.
func compiled(t *testing.T, dir string) []string {
	t.Helper()
	program, err := buildWorkflow()
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "workflow"), program, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	return nil
}

var buildWorkflow = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "belljar-workflow-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "workflow")
	build := exec.Command("go", "build", "-trimpath", "-o", path, "../../examples/workflow")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, out)
	}
	return os.ReadFile(path)
})

// TestWorkflowLeavesNothing interrupts a workflow with an invalid reply of the model. Its sandbox is closed, and that of another
// workflow is not.
func TestWorkflowLeavesNothing(t *testing.T) {
	s := served.Start(t, built.Belljar)
	dir := filepath.Join(copied(t), "workflow")
	compiled(t, dir)
	key := s.User(t, "broken")
	c, err := client.New(client.Options{URL: s.URL, APIKey: key})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	other, _, err := c.Sessions().Open(t.Context(), belljar.SessionRequest{SessionSpec: belljar.SessionSpec{
		SpecVersion: belljar.SpecVersion, BaseImage: "host", Scope: belljar.Scope{Namespace: "workflow", ID: "run_12"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	play := `[{"given": "step analyze", "calls": [{"name": "sandbox_open", "input": {}}]}, {"given": "sandbox_id", "text": "fine"},
		{"given": "step fix", "text": "fine"}, {"given": "step test", "text": "I think that all is well"}]`
	if err := os.WriteFile(filepath.Join(dir, "play.json"), []byte(play), 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := bash(t, dir, "python3 ../model/model.py play.json -- ./workflow -run run_1 -project project workflow.yaml",
		"BELLJAR_SERVER="+s.URL, "BELLJAR_API_KEY="+key)
	if err == nil || !strings.Contains(out, "workflow: step test has reported no all_passed") || !strings.Contains(out, "closed workflow:run_1:default") {
		t.Errorf("%v\n%s", err, out)
	}
	page, err := c.Sessions().List(t.Context(), belljar.SessionQuery{})
	if err != nil || len(page.Items) != 1 || page.Items[0].ID != other.ID {
		t.Errorf("left: %+v, %v", page.Items, err)
	}
}
