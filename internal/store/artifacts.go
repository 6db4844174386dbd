package store

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/belljar/belljar"
)

// SetArtifacts stores a list of artifacts in the run's row.
func (r *Run) SetArtifacts(list []belljar.Artifact) {
	r.Artifacts, _ = json.Marshal(list) // texts and numbers alone cannot fail
}

// ArtifactList returns the artifacts that [Run.SetArtifacts] stored; [ErrCorrupt].
func (r *Run) ArtifactList() (list []belljar.Artifact, err error) {
	if r.Artifacts == nil {
		return nil, nil
	}
	if err := json.Unmarshal(r.Artifacts, &list); err != nil {
		return nil, fmt.Errorf("artifacts of run %s: %w: %w", r.ID, ErrCorrupt, err)
	}
	return list, nil
}

// Artifact returns the artifact at a path, or nil; [ErrCorrupt]. It decodes no other, so that reading all of them one by one stays cheap.
func (r *Run) Artifact(path string) (*belljar.Artifact, error) {
	// An object that begins with its path, as SetArtifacts writes it. Inside a JSON text these quotes would be escaped.
	begin, _ := json.Marshal(belljar.Artifact{Path: path})
	begin, _, _ = bytes.Cut(begin, []byte(`,"size":`))
	if at := bytes.Index(r.Artifacts, begin); at >= 0 {
		var a belljar.Artifact
		if err := json.NewDecoder(bytes.NewReader(r.Artifacts[at:])).Decode(&a); err == nil && a.Path == path {
			return &a, nil
		}
	}
	list, err := r.ArtifactList()
	for i := range list {
		if list[i].Path == path {
			return &list[i], nil
		}
	}
	return nil, err
}
