package script

import (
	"fmt"
	"io/fs"
	"path"
	"strings"
)

// Source is the text of a script's file with those that it includes: a line
// "-- include x.lua" stands for that file's text, the first time.
func Source(files fs.FS, name string) (string, error) {
	var text strings.Builder
	err := include(files, name+".lua", &text, map[string]bool{})
	return text.String(), err
}

func include(files fs.FS, name string, text *strings.Builder, had map[string]bool) error {
	if had[name] {
		return nil
	}
	had[name] = true
	part, err := fs.ReadFile(files, name)
	if err != nil {
		return fmt.Errorf("a script's file: %w", err)
	}
	for line := range strings.Lines(string(part)) {
		other, ok := strings.CutPrefix(strings.TrimSpace(line), "-- include ")
		if ok && line[0] != '-' { // what it defines would be there in that block only
			return fmt.Errorf("a script's file: %s: %q inside of a block", name, line)
		}
		if !ok {
			text.WriteString(line)
			continue
		}
		if err := include(files, path.Join(path.Dir(name), other), text, had); err != nil {
			return err
		}
	}
	return nil
}
