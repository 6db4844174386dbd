package rest

import (
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
)

// TemplateList lists the templates that a caller can name.
type TemplateList struct {
	Items []belljar.Template `json:"items"`
}

type templatePath struct {
	Name string `path:"name" doc:"The template's name"`
}

type templateRemoval struct {
	Name   string `path:"name" doc:"The template's name"`
	Shared bool   `query:"shared" doc:"Remove the shared template of that name; operators only"`
}

// addTemplates adds the operations about templates.
func addTemplates(d *Door) {
	const all = api.Prefix + "/templates"
	tags := []string{"templates"}
	handle(d, huma.Operation{
		OperationID: "build-template", Method: http.MethodPost, Path: all, Tags: tags, Summary: "Build a template",
		Description: "An image, packages, environment and files by a name, which sessions and runs have as template. It is built in a session of the caller's, with a run " +
			"for each command, and answered when that is over. A template of that name is replaced once the build has succeeded, and answered as it is if nothing " +
			"has changed.",
	}, func(c *call, _ *none, body *belljar.TemplateSpec) (belljar.Template, error) {
		return c.Templates().Build(c, *body)
	})
	handle(d, huma.Operation{
		OperationID: "list-templates", Method: http.MethodGet, Path: all, Tags: tags, Summary: "List templates",
		Description: "The caller's own and the shared ones, by name: 100 of each at most. Those that are built for the first time are among them.",
	}, func(c *call, _ *none, _ *none) (TemplateList, error) {
		list, err := c.Templates().List(c)
		return TemplateList{filled(list)}, err
	})
	handle(d, huma.Operation{
		OperationID: "get-template", Method: http.MethodGet, Path: all + "/{name}", Tags: tags, Summary: "Get a template",
		Description: "The caller's own, or else the shared one. While it is built, building names the step.",
	}, func(c *call, p *templatePath, _ *none) (belljar.Template, error) {
		return c.Templates().Get(c, p.Name)
	})
	command(d, huma.Operation{
		OperationID: "remove-template", Method: http.MethodDelete, Path: all + "/{name}", Tags: tags, Summary: "Remove a template with its files",
		Description: "Sessions and runs that were made of it keep their files.",
	}, func(c *call, p *templateRemoval) error {
		return c.Templates().Remove(c, p.Name, p.Shared)
	})
}

// templateWords are the descriptions of the properties of templates, as [words].
func templateWords() map[string]string {
	all := map[string]string{
		"template": "Name of the template that has its image, packages, environment and files: the caller's own, or else the shared one", "TemplateList.items": "The templates",
		"Template.digest":       "SHA-256 of all that it was made of, without the image",
		"Template.image_digest": "Digest of the image that it was built with; absent for host. With another image it is built again before it is used",
		"Template.bytes":        "Bytes of its files", "Template.files": "Its files and symbolic links", "Template.snapshot_digest": "Digest of its files", "Template.user_id": "Who built it",
		"Template.reason": "Why it was built last", "Template.built_at": "When it was built last; absent while it is built for the first time",
		"Template.building":     "What the build that is under way does: create (its session, with the packages), run[0], run[1] and so on, or save (its files); absent without a build",
		"Template.build_run_id": "The run of the command that the build executes; in the answer of a build, that of its last command",
	}
	for field, text := range map[string]string{
		"name": "Its name: a-z, 0-9, and after the first also - _ and .; at most 64 characters", "base_image": "The image that it is built with, and that its sessions and runs have",
		"snapshot": "Id of a snapshot of the caller's, whose files the build begins with; the template keeps them", "run": "Shell commands that make its files in /workspace, executed when it is built",
		"start":       "Shell commands that are executed in each new sandbox of it, before that can be used; what they leave running stays",
		"timeout_sec": "How many seconds each command of run may take; absent is the server's default for a run", "shared": "Whether it is a template of all users; operators only",
		"rebuild": "Build it even if nothing has changed", "env": "Environment of the build, and of sessions and runs, whose own variables override it", "packages": "Packages for the build, and for sessions and runs that ask for none",
		"resources": "Limits of the build, and of sessions and runs that set none", "runtime": "Runtime of the build, and of sessions and runs that name none",
		"network_policy": "deny_all or allowlist: of the build, and of sessions and runs that ask for no network", "egress": "What an allowlist lets through",
		"workspace_exec": "Whether programs in /workspace may be executed",
	} {
		all["Template."+field], all["TemplateSpec."+field] = text, text
	}
	return all
}
