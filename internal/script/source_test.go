package script_test

import (
	"errors"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/go-lynx/lynx-redis-lock/internal/script"
)

func TestASourceHasWhatItIncludesOnceAndInItsPlace(t *testing.T) {
	t.Parallel()
	files := fstest.MapFS{
		"lua/main.lua":  {Data: []byte("one\n-- include part.lua\ntwo\n-- include other.lua\nthree\n")},
		"lua/part.lua":  {Data: []byte("part\n")},
		"lua/other.lua": {Data: []byte("-- include part.lua\n-- include main.lua\nother\n")},
		"lua/block.lua": {Data: []byte("if a then\n  -- include part.lua\nend\n")},
		"lua/lost.lua":  {Data: []byte("-- include nowhere.lua\n")},
	}
	const want = "one\npart\ntwo\nother\nthree\n"
	if got, err := script.Source(files, "lua/main"); err != nil || got != want {
		t.Errorf("%q, error %v, want %q", got, err, want)
	}
	if got, err := script.Source(files, "lua/block"); err == nil || !strings.Contains(err.Error(), "inside of a block") {
		t.Errorf("an include inside of a block: %q, error %v", got, err)
	}
	if got, err := script.Source(files, "lua/lost"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an include of a file that is not there: %q, error %v", got, err)
	}
}
