package belljar

import (
	"errors"
	"strings"
	"testing"
)

func TestWorkspace(t *testing.T) {
	long := strings.Repeat("a", 65)
	for name, c := range map[string]struct {
		w     Workspace
		field string // the refused field; "" for none
	}{
		"none":                   {Workspace{}, ""},
		"memory":                 {Workspace{Medium: "memory"}, ""},
		"a disk":                 {Workspace{Medium: "disk", MB: 8}, ""},
		"a volume":               {Workspace{Volume: "a-b_c.1"}, ""},
		"a new volume":           {Workspace{Medium: "disk", Volume: "a", MB: 64}, ""},
		"a volume to read":       {Workspace{Volume: "a", ReadOnly: true}, ""},
		"another medium":         {Workspace{Medium: "tape"}, "workspace.medium"},
		"a volume in memory":     {Workspace{Medium: "memory", Volume: "a"}, "workspace.volume"},
		"a size in memory":       {Workspace{MB: 64}, "workspace.mb"},
		"a disk without a size":  {Workspace{Medium: "disk"}, "workspace.mb"},
		"a disk too small":       {Workspace{Medium: "disk", MB: 7}, "workspace.mb"},
		"a negative size":        {Workspace{Volume: "a", MB: -1}, "workspace.mb"},
		"a disk to read":         {Workspace{Medium: "disk", MB: 8, ReadOnly: true}, "workspace.read_only"},
		"memory to read":         {Workspace{ReadOnly: true}, "workspace.read_only"},
		"a new volume to read":   {Workspace{Volume: "a", MB: 8, ReadOnly: true}, "workspace.mb"},
		"a path":                 {Workspace{Volume: "../a"}, "workspace.volume"},
		"a hidden name":          {Workspace{Volume: ".a"}, "workspace.volume"},
		"upper case":             {Workspace{Volume: "A"}, "workspace.volume"},
		"a name with a NUL byte": {Workspace{Volume: "a\x00"}, "workspace.volume"},
		"a long name":            {Workspace{Volume: long}, "workspace.volume"},
	} {
		run := RunSpec{SpecVersion: "1.1", BaseImage: "host", Command: []string{"true"}, Workspace: c.w}
		session := SessionSpec{SpecVersion: "1.1", BaseImage: "host", Workspace: c.w}
		for _, err := range []error{c.w.Validate(), run.Validate(), session.Validate()} {
			if got := refusedField(err); got != c.field {
				t.Errorf("%s: field %q, want %q: %v", name, got, c.field, err)
			}
		}
	}
	volume, read := Workspace{Volume: "a"}, Workspace{Volume: "a", ReadOnly: true}
	for name, c := range map[string]struct {
		run   RunSpec
		field string
	}{
		"in a session":         {RunSpec{SessionID: NewID(), Command: []string{"true"}, Workspace: volume}, "workspace"},
		"two sizes":            {RunSpec{Command: []string{"true"}, Workspace: volume, Resources: Resources{WorkspaceMB: 8}}, "resources.workspace_mb"},
		"files to read only":   {RunSpec{Command: []string{"true"}, Workspace: read, Files: []InlineFile{{Path: "a"}}}, "files"},
		"code to read only":    {RunSpec{Code: "1", Language: "python", Workspace: read}, "code"},
		"a build cache":        {RunSpec{Code: "int main(){}", Language: "c", WorkspaceExec: true, BuildCache: true, Workspace: volume}, "build_cache"},
		"a cache and own disk": {RunSpec{Code: "int main(){}", Language: "c", WorkspaceExec: true, BuildCache: true, Workspace: Workspace{Medium: "disk", MB: 8}}, ""},
	} {
		c.run.SpecVersion = "1.1"
		if c.run.SessionID == "" {
			c.run.BaseImage = "host"
		}
		if got := refusedField(c.run.Validate()); got != c.field {
			t.Errorf("%s: field %q, want %q: %v", name, got, c.field, c.run.Validate())
		}
	}
	session := SessionSpec{SpecVersion: "1.1", BaseImage: "host", Workspace: read, Snapshot: NewID()}
	if got := refusedField(session.Validate()); got != "snapshot" {
		t.Errorf("a snapshot to read only: %q", got)
	}
	for spec, field := range map[VolumeSpec]string{{"a", 8}: "", {"", 8}: "name", {"a", 0}: "mb", {"a", 7}: "mb"} {
		if got := refusedField(spec.Validate()); got != field {
			t.Errorf("%v: %q, want %q", spec, got, field)
		}
	}
	if got := (Workspace{Medium: "memory"}).Disk(5); got != (Workspace{}) {
		t.Errorf("in memory: %+v", got)
	}
	if got := volume.Disk(5); got != (Workspace{Medium: "disk", MB: 5, Volume: "a"}) || !got.OnDisk() {
		t.Errorf("on disk: %+v", got)
	}
}

// refusedField returns the field of an error; "" for no error.
func refusedField(err error) string {
	var e *Error
	if !errors.As(err, &e) {
		return ""
	}
	field, _ := e.Details["field"].(string)
	return field
}
