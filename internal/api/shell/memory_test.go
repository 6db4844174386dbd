package shell_test

import (
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
	"github.com/belljar/belljar/internal/api/shell"
	"github.com/belljar/belljar/test/apitest"
)

// A list of files reserves memory neither while its session wakes nor while a slow client reads it.
func TestAnswersReserveMemoryBriefly(t *testing.T) {
	apitest.CheckMemory(t, func(engine belljar.Engine, bodies *api.Shares) (apitest.Door, error) {
		return shell.New(shell.Options{Engine: engine, Auth: apitest.Callers(), Bodies: bodies})
	}, apitest.Route{Method: "GET", Path: "/v1/sessions/" + apitest.ID + "/fs/list"})
}

// A list with invalid arguments does not wake its session.
func TestRefusedBeforeTheSessionIsUsed(t *testing.T) {
	apitest.CheckRefused(t, func(engine belljar.Engine) (apitest.Door, error) {
		return shell.New(shell.Options{Engine: engine, Auth: apitest.Callers()})
	}, apitest.Route{Method: "GET", Path: "/v1/sessions/" + apitest.ID + "/fs/list?path=../x"})
}
