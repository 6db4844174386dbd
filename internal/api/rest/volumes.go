package rest

import (
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
)

// VolumeList is the caller's volumes.
type VolumeList struct {
	Items []belljar.Volume `json:"items"`
}

type volumePath struct {
	Name string `path:"name" doc:"The volume's name"`
}

// addVolumes adds the operations about volumes.
func addVolumes(d *Door) {
	const all = api.Prefix + "/volumes"
	tags := []string{"volumes"}
	handle(d, huma.Operation{
		OperationID: "create-volume", Method: http.MethodPost, Path: all, Tags: tags, Summary: "Make a volume",
		Description: "A workspace on the server's disk, empty, which sessions and runs have as workspace.volume. All of its size is taken at once, " +
			"and counts to the caller's artifact_mb.",
	}, func(c *call, _ *none, body *belljar.VolumeSpec) (belljar.Volume, error) {
		return c.Volumes().Create(c, *body)
	})
	handle(d, huma.Operation{
		OperationID: "list-volumes", Method: http.MethodGet, Path: all, Tags: tags, Summary: "List volumes", Description: "The caller's own, by name: 100 at most.",
	}, func(c *call, _ *none, _ *none) (VolumeList, error) {
		list, err := c.Volumes().List(c)
		return VolumeList{filled(list)}, err
	})
	handle(d, huma.Operation{
		OperationID: "get-volume", Method: http.MethodGet, Path: all + "/{name}", Tags: tags, Summary: "Get a volume",
	}, func(c *call, p *volumePath, _ *none) (belljar.Volume, error) {
		return c.Volumes().Get(c, p.Name)
	})
	command(d, huma.Operation{
		OperationID: "remove-volume", Method: http.MethodDelete, Path: all + "/{name}", Tags: tags, Summary: "Remove a volume with its files",
		Description: "It is a conflict while a session or run has it.",
	}, func(c *call, p *volumePath) error {
		return c.Volumes().Remove(c, p.Name)
	})
}

// volumeWords are the descriptions of the properties of volumes and workspaces, as [words].
func volumeWords() map[string]string {
	return map[string]string{
		"medium": "memory or disk; absent is memory, or disk with a volume", "Workspace.mb": "MiB that the files of a disk may have; with a volume that exists, absent or its size",
		"volume": "Name of the caller's volume that it is; one that does not exist is made with mb", "read_only": "Whether nothing can be written to the volume: others can have it at the same time",
		"Volume.name": "Its name", "Volume.mb": "MiB that its files may have", "used_by": "Ids of the sessions and runs that have it now",
		"written_by": "Id of the one that may write to it; absent for none", "Volume.created_at": "When it was made",
		"VolumeSpec.name": "Its name: a-z, 0-9, and after the first also - _ and .; at most 64 characters", "VolumeSpec.mb": "MiB that its files may have",
		"VolumeList.items": "The volumes", "workspace": "Where /workspace is; absent means in memory",
		"disk_workspaces": "Whether a workspace can be on disk", "disk_workspace_cap_mb": "MiB of the largest workspace on disk; 0 if there can be none",
		"disk_workspaces_reason": "Why a workspace cannot be on disk; absent if it can",
	}
}
