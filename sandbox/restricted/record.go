package restricted

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// Record is what was changed in access lists, written before the change: whoever finds it after
// a crash can undo it. What is undone is what names SID, and no entry of anybody else's.
type Record struct {
	SID    string        `json:"sid"`
	Places []PlaceRecord `json:"places"`
}

// PlaceRecord is one place of a record.
type PlaceRecord struct {
	Path string `json:"path"`
	// Label is the mandatory label from before as SDDL, "" for none. It counts where Labelled.
	Label    string `json:"label,omitempty"`
	Labelled bool   `json:"labelled,omitempty"`
}

const largestRecord = 1 << 20

// Validate reports what makes r unusable: undoing it could touch what is not ours.
func (r Record) Validate() error {
	if !strings.HasPrefix(r.SID, "S-1-15-3-1024-") {
		return fmt.Errorf("record of access lists: sid %q is none of a plan", r.SID)
	}
	if len(r.Places) > MaxGrants {
		return fmt.Errorf("record of access lists: %d places, at most %d", len(r.Places), MaxGrants)
	}
	for _, p := range r.Places {
		if err := CheckPath(p.Path); err != nil {
			return fmt.Errorf("record of access lists: %w", err)
		}
	}
	return nil
}

// Save writes r to file, which appears whole or not at all and stays through a crash.
func (r Record) Save(file string) error {
	if err := r.Validate(); err != nil {
		return err
	}
	data, err := json.MarshalIndent(r, "", "\t")
	if err != nil {
		return err
	}
	temp, err := os.CreateTemp(filepath.Dir(file), filepath.Base(file)+".*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(temp.Name()) }() // gone after the rename
	_, err = temp.Write(data)
	if err == nil {
		err = temp.Sync()
	}
	if closed := temp.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return os.Rename(temp.Name(), file)
}

// LoadRecord reads what [Record.Save] wrote.
func LoadRecord(file string) (Record, error) {
	f, err := os.Open(file)
	if err != nil {
		return Record{}, err
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, largestRecord+1))
	if err != nil {
		return Record{}, err
	}
	if len(data) > largestRecord {
		return Record{}, fmt.Errorf("%s: more than %d bytes", file, largestRecord)
	}
	var r Record
	if err := json.Unmarshal(data, &r); err != nil {
		return Record{}, fmt.Errorf("%s: %w", file, err)
	}
	if err := r.Validate(); err != nil {
		return Record{}, fmt.Errorf("%s: %w", file, err)
	}
	return r, nil
}
