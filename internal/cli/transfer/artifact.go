package transfer

import (
	"context"
	"fmt"
	"io"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/cli/mistake"
)

// Artifact writes one artifact of a run to w.
func Artifact(ctx context.Context, s belljar.Service, id, path string, w io.Writer) error {
	_, content, err := s.Artifacts().Open(ctx, id, path, 0)
	if err != nil {
		return err
	}
	defer content.Close()
	if _, err := io.Copy(w, content); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// Only returns the artifact of a run at a path.
func Only(list []belljar.Artifact, id, path string) ([]belljar.Artifact, error) {
	clean, err := belljar.CleanPath(path)
	if err != nil {
		return nil, mistake.New("", "%s: %v", path, err)
	}
	for _, a := range list {
		if a.Path == clean {
			return []belljar.Artifact{a}, nil
		}
	}
	return nil, &belljar.Error{
		Code: belljar.CodeNotFound, Message: fmt.Sprintf("the run left no %s", clean), Details: map[string]any{"run_id": id, "path": clean},
		Hint: "belljar artifact ls " + id,
	}
}
