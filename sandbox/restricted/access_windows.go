package restricted

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/windows"
)

// Apply makes p's entries, after it has saved in file what [Undo] needs. When it fails it has
// undone what it did; when that fails too, file stays.
func (p Plan) Apply(file string) error {
	record := Record{SID: p.SID}
	for _, g := range p.Grants {
		place := PlaceRecord{Path: g.Path, Labelled: g.Low}
		if g.Low {
			label, err := mandatoryLabel(g.Path)
			if err != nil {
				return fmt.Errorf("access list of %s: %w", g.Path, err)
			}
			place.Label = label
		}
		record.Places = append(record.Places, place)
	}
	if err := record.Save(file); err != nil {
		return err
	}
	sid, err := windows.StringToSid(p.SID)
	if err != nil {
		return fmt.Errorf("sid %q: %w", p.SID, err)
	}
	for _, g := range p.Grants {
		if err := g.apply(sid); err != nil {
			return errors.Join(fmt.Errorf("access list of %s: %w", g.Path, err), Undo(file))
		}
	}
	return nil
}

func (g Grant) apply(sid *windows.SID) error {
	mode, inheritance := windows.ACCESS_MODE(windows.GRANT_ACCESS), uint32(windows.NO_INHERITANCE)
	if g.Deny {
		mode = windows.DENY_ACCESS
	}
	if g.Inherit {
		inheritance = windows.SUB_CONTAINERS_AND_OBJECTS_INHERIT
	}
	if err := merge(g.Path, entry(sid, mode, windows.ACCESS_MASK(g.Mask), inheritance)); err != nil {
		return err
	}
	if !g.Low {
		return nil
	}
	return setLabel(g.Path, "S:(ML;OICI;NW;;;LW)")
}

// merge adds one entry to the access list of path, where others stay as they are.
func merge(path string, e windows.EXPLICIT_ACCESS) error {
	sd, err := windows.GetNamedSecurityInfo(path, windows.SE_FILE_OBJECT, windows.DACL_SECURITY_INFORMATION)
	if err != nil {
		return err
	}
	old, _, err := sd.DACL()
	if err != nil {
		return err
	}
	merged, err := windows.ACLFromEntries([]windows.EXPLICIT_ACCESS{e}, old)
	if err != nil {
		return err
	}
	return windows.SetNamedSecurityInfo(path, windows.SE_FILE_OBJECT, windows.DACL_SECURITY_INFORMATION, nil, nil, merged, nil)
}

// mandatoryLabel is the label of path itself as SDDL, "" when it has none and so counts as medium.
func mandatoryLabel(path string) (string, error) {
	sd, err := windows.GetNamedSecurityInfo(path, windows.SE_FILE_OBJECT, windows.LABEL_SECURITY_INFORMATION)
	if err != nil {
		return "", err
	}
	if text := sd.String(); strings.Contains(text, "(ML;") {
		return text, nil
	}
	return "", nil
}

func setLabel(path, sddl string) error {
	sd, err := windows.SecurityDescriptorFromString(sddl)
	if err != nil {
		return fmt.Errorf("label %q: %w", sddl, err)
	}
	sacl, _, err := sd.SACL()
	if err != nil {
		return fmt.Errorf("label %q: %w", sddl, err)
	}
	return windows.SetNamedSecurityInfo(path, windows.SE_FILE_OBJECT, windows.LABEL_SECURITY_INFORMATION, nil, nil, nil, sacl)
}

// Undo takes back what the record in file says, and removes file when all of it is undone.
// A place that is gone is done. It can be called again.
func Undo(file string) error {
	record, err := LoadRecord(file)
	if err != nil {
		return err
	}
	sid, err := windows.StringToSid(record.SID)
	if err != nil {
		return fmt.Errorf("%s: sid %q: %w", file, record.SID, err)
	}
	var failed error
	for _, place := range record.Places {
		if err := place.undo(sid); err != nil && !errors.Is(err, windows.ERROR_FILE_NOT_FOUND) && !errors.Is(err, windows.ERROR_PATH_NOT_FOUND) {
			failed = errors.Join(failed, fmt.Errorf("access list of %s: %w", place.Path, err))
		}
	}
	if failed != nil {
		return failed
	}
	return os.Remove(file)
}

func (p PlaceRecord) undo(sid *windows.SID) error {
	if err := merge(p.Path, entry(sid, windows.REVOKE_ACCESS, 0, windows.NO_INHERITANCE)); err != nil {
		return err
	}
	if !p.Labelled {
		return nil
	}
	label := p.Label
	if label == "" {
		label = "S:" // an empty list: medium, as every file without a label
	}
	return setLabel(p.Path, label)
}
