package main

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/getpioneer/pioneer-super/policy"
	"github.com/getpioneer/pioneer-super/registry"
	"github.com/getpioneer/pioneer-super/supervisor"
	"github.com/getpioneer/pioneer-super/supervisor/control"
)

// readRules reads the operator's files for a new tree, with this process's rights.
// policyFlag is the path that --policy names, "" for the one of the configuration
// directory; a policy that is named has to be there.
func readRules(places registry.Places, policyFlag string, root *control.Root) error {
	path := policyFlag
	if path == "" {
		path = filepath.Join(places.Config, "policy.jsonc")
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	files, err := supervisor.ReadConfig(places.Config, path)
	if err != nil {
		return err
	}
	if files.Policy == nil && policyFlag != "" {
		return fmt.Errorf("--policy: open %s: %w", path, syscall.ENOENT)
	}
	root.Policy, root.Guards, root.Settings, root.Agents, root.PolicyPath = files.Policy, files.Guards, files.Settings, files.Agents, path
	if files.Settings == nil {
		return nil
	}
	settings, err := policy.ParseSettings(files.Settings.Name, files.Settings.Data)
	if err != nil || settings.Review == nil || settings.Review.KeyEnv == "" {
		return nil // the supervisor says all that is wrong, in every file
	}
	if root.ReviewKey = os.Getenv(settings.Review.KeyEnv); root.ReviewKey == "" {
		return fmt.Errorf("%s: the model reviewer needs %s in the environment", settings.Review.Origin, settings.Review.KeyEnv)
	}
	return nil
}
