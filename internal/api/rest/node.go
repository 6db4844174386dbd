package rest

import (
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
)

// PresetList lists the hosts that presets stand for in an image.
type PresetList struct {
	Items []belljar.NetworkPreset `json:"items"`
}

type presetQuery struct {
	Image string `query:"base_image" doc:"The image; by default, the host image"`
}

func (d *Door) node() {
	handle(d, huma.Operation{
		OperationID: "list-runtimes", Method: http.MethodGet, Path: api.Prefix + "/runtimes", Tags: []string{"node"},
		Summary:     "List the runtimes",
		Description: "Every runtime with what it can enforce on this host and, if it is not available, the reasons.",
	}, func(c *call, _ *none, _ *none) (belljar.Discovery, error) {
		found, err := c.Node().Runtimes(c)
		found.Runtimes = filled(found.Runtimes)
		if found.TrustLevels == nil {
			found.TrustLevels = map[belljar.TrustLevel]string{}
		}
		for i := range found.Runtimes {
			found.Runtimes[i].DefaultImages = filled(found.Runtimes[i].DefaultImages)
			found.Runtimes[i].SupportedSpecVersions = filled(found.Runtimes[i].SupportedSpecVersions)
		}
		return found, err
	})
	handle(d, huma.Operation{
		OperationID: "get-me", Method: http.MethodGet, Path: api.Prefix + "/me", Tags: []string{"node"},
		Summary:     "Get the caller, the policy and the quotas",
		Description: "The caller, the policy and limits in force, the quotas and their usage.",
	}, func(c *call, _ *none, _ *none) (belljar.Me, error) {
		me, err := c.Node().Me(c)
		if me.Policy == nil {
			me.Policy = map[string]any{}
		}
		return me, err
	})
	handle(d, huma.Operation{
		OperationID: "check-network", Method: http.MethodPost, Path: api.Prefix + "/network/check", Tags: []string{"node"},
		Summary: "Check whether a program could reach a URL",
		Description: "Answers whether a program could connect to a URL, and why, in a session or with a network of its own, without connecting " +
			"to it. Its host may be resolved.",
	}, func(c *call, _ *none, body *belljar.NetworkQuery) (belljar.NetworkCheck, error) {
		return c.Node().CheckNetwork(c, *body)
	})
	handle(d, huma.Operation{
		OperationID: "list-network-presets", Method: http.MethodGet, Path: api.Prefix + "/network/presets", Tags: []string{"node"},
		Summary: "List the presets",
		Description: "Every preset that egress.presets can name, with its indexes and hosts in an image, or why it cannot be used. Tools of the image and " +
			"their indexes are asked, unless their answers are kept: that takes seconds.",
	}, func(c *call, q *presetQuery, _ *none) (PresetList, error) {
		list, err := c.Node().NetworkPresets(c, q.Image)
		return PresetList{filled(list)}, err
	})
}
