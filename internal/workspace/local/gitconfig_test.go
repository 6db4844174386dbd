package local

import "testing"

func TestStrange(t *testing.T) {
	const plain = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n[remote \"origin\"]\n\turl = https://x/y\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n[branch \"main\"]\n\tremote = origin\n; note\n# note\n"
	if got := strange(plain); got != "" {
		t.Error(got)
	}
	for _, bad := range []string{
		"[core]\nfsmonitor=x", "[CORE]\nFSMONITOR = x", "[core] fsmonitor = x", "[core]\n\thookspath=x", "[include]\npath=x", "[includeIf \"gitdir:/\"]\npath=x",
		"[filter \"x\"]\nclean=x", "[diff \"x\"]\ntextconv=x", "[diff]\nexternal=x", "[core]\nworktree=/", "[extensions]\nworktreeConfig=true",
		"[extensions]\npartialclone=o", "[remote \"o\"]\npromisor=true", "[remote \"o\"]\nuploadpack=x", "[core]\nfilemode = true\\\nfsmonitor=x",
		"[core]\n\tbare = \"a\\\n[core]\nfsmonitor=x\"", "[core.x]\ny=1", "[core \"a]\nfsmonitor=x", "[remote \"a\\\"] [core\"]\nurl=x", "[core][core]\nfilemode=x",
		"fsmonitor=x", "[core]\r\nfsmonitor=x\r\n", "[core]\nfsmonitor", "[alias]\nx=!y", "[credential]\nhelper=x", "[gpg]\nprogram=x", "\ufeff[core]\nfsmonitor=x",
	} {
		if got := strange(bad); got == "" {
			t.Errorf("%q passes", bad)
		}
	}
}
