package restricted

import (
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"syscall"
	"unsafe"

	"golang.org/x/sys/windows"
)

var (
	advapi32              = windows.NewLazySystemDLL("advapi32.dll")
	createRestrictedToken = advapi32.NewProc("CreateRestrictedToken")
)

// Job holds all processes of one plan. Its end, by Close or with this process, is theirs.
type Job struct{ handle windows.Handle }

// Start starts cmd in p's token and job. Nothing of the program runs before it is in the job;
// after an error nothing of it ran. The caller waits for cmd, and closes the job. What cmd inherits
// are its standard streams alone.
func (p Plan) Start(cmd *exec.Cmd) (*Job, error) {
	token, err := p.token()
	if err != nil {
		return nil, fmt.Errorf("restricted token: %w", err)
	}
	defer func() { _ = token.Close() }()
	attributes := syscall.SysProcAttr{}
	if cmd.SysProcAttr != nil {
		attributes = *cmd.SysProcAttr
	}
	attributes.Token = syscall.Token(token)
	cmd.SysProcAttr = &attributes
	return p.StartInJob(cmd)
}

// StartInJob is [Plan.Start] without the token: the job alone.
func (p Plan) StartInJob(cmd *exec.Cmd) (*Job, error) {
	job, err := p.job()
	if err != nil {
		return nil, fmt.Errorf("job object: %w", err)
	}
	attributes := syscall.SysProcAttr{}
	if cmd.SysProcAttr != nil {
		attributes = *cmd.SysProcAttr
	}
	attributes.CreationFlags |= windows.CREATE_SUSPENDED
	cmd.SysProcAttr = &attributes
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(err, job.Close())
	}
	if err := job.admit(uint32(cmd.Process.Pid)); err != nil {
		err = errors.Join(fmt.Errorf("job object: %w", err), cmd.Process.Kill())
		_ = cmd.Wait() // it never ran; its status is ours
		return nil, errors.Join(err, job.Close())
	}
	return job, nil
}

// admit puts the suspended process pid into the job, and lets it run. Its handle is open in
// cmd, so that pid is no other process meanwhile.
func (j *Job) admit(pid uint32) error {
	process, err := windows.OpenProcess(windows.PROCESS_SET_QUOTA|windows.PROCESS_TERMINATE, false, pid)
	if err != nil {
		return err
	}
	defer func() { _ = windows.CloseHandle(process) }()
	if err := windows.AssignProcessToJobObject(j.handle, process); err != nil {
		return err
	}
	return resume(pid)
}

// resume lets the threads of the suspended process pid run: it has one.
func resume(pid uint32) error {
	snapshot, err := windows.CreateToolhelp32Snapshot(windows.TH32CS_SNAPTHREAD, 0)
	if err != nil {
		return err
	}
	defer func() { _ = windows.CloseHandle(snapshot) }()
	entry := windows.ThreadEntry32{Size: uint32(unsafe.Sizeof(windows.ThreadEntry32{}))}
	resumed := 0
	for err = windows.Thread32First(snapshot, &entry); err == nil; err = windows.Thread32Next(snapshot, &entry) {
		if entry.OwnerProcessID != pid {
			continue
		}
		thread, err := windows.OpenThread(windows.THREAD_SUSPEND_RESUME, false, entry.ThreadID)
		if err != nil {
			return err
		}
		_, err = windows.ResumeThread(thread)
		_ = windows.CloseHandle(thread)
		if err != nil {
			return err
		}
		resumed++
	}
	if !errors.Is(err, windows.ERROR_NO_MORE_FILES) {
		return err
	}
	if resumed == 0 {
		return fmt.Errorf("process %d has no thread to resume", pid)
	}
	return nil
}

func (p Plan) job() (*Job, error) {
	handle, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return nil, err
	}
	job := &Job{handle}
	limits := windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION{
		BasicLimitInformation: windows.JOBOBJECT_BASIC_LIMIT_INFORMATION{
			LimitFlags: p.LimitFlags, ActiveProcessLimit: p.Limits.Processes,
			PerProcessUserTimeLimit: int64(p.Limits.CPU * 1e7), // in units of 100 ns
		},
		JobMemoryLimit: uintptr(p.Limits.Memory), ProcessMemoryLimit: uintptr(p.Limits.ProcessMemory),
	}
	if _, err := windows.SetInformationJobObject(handle, windows.JobObjectExtendedLimitInformation,
		uintptr(unsafe.Pointer(&limits)), uint32(unsafe.Sizeof(limits))); err != nil {
		return nil, errors.Join(fmt.Errorf("limits %#x: %w", p.LimitFlags, err), job.Close())
	}
	ui := windows.JOBOBJECT_BASIC_UI_RESTRICTIONS{UIRestrictionsClass: p.UIFlags}
	if _, err := windows.SetInformationJobObject(handle, windows.JobObjectBasicUIRestrictions,
		uintptr(unsafe.Pointer(&ui)), uint32(unsafe.Sizeof(ui))); err != nil {
		return nil, errors.Join(fmt.Errorf("ui restrictions %#x: %w", p.UIFlags, err), job.Close())
	}
	return job, nil
}

// Close ends every process that is left in the job.
func (j *Job) Close() error { return windows.CloseHandle(j.handle) }

// Terminate ends every process in the job with code and leaves the job open.
func (j *Job) Terminate(code uint32) error { return windows.TerminateJobObject(j.handle, code) }

// accounting is JOBOBJECT_BASIC_ACCOUNTING_INFORMATION.
type accounting struct {
	totalUserTime, totalKernelTime, periodUserTime, periodKernelTime int64 // of 100 ns
	pageFaults, totalProcesses, activeProcesses, terminatedProcesses uint32
}

// Processes is how many processes are in the job now: 0 proves its end.
func (j *Job) Processes() (int, error) {
	var a accounting
	if err := windows.QueryInformationJobObject(j.handle, windows.JobObjectBasicAccountingInformation,
		uintptr(unsafe.Pointer(&a)), uint32(unsafe.Sizeof(a)), nil); err != nil {
		return 0, fmt.Errorf("job object: %w", err)
	}
	return int(a.activeProcesses), nil
}

// token makes p's token out of this process's own, which needs no privilege.
func (p Plan) token() (windows.Token, error) {
	var own windows.Token
	const access = windows.TOKEN_DUPLICATE | windows.TOKEN_QUERY | windows.TOKEN_ASSIGN_PRIMARY | windows.TOKEN_ADJUST_DEFAULT
	if err := windows.OpenProcessToken(windows.CurrentProcess(), access, &own); err != nil {
		return 0, err
	}
	defer func() { _ = own.Close() }()
	sids, err := p.restricting(own)
	if err != nil {
		return 0, err
	}
	var token windows.Token
	ok, _, err := createRestrictedToken.Call(uintptr(own), uintptr(p.TokenFlags), 0, 0, 0, 0,
		uintptr(len(sids)), uintptr(unsafe.Pointer(unsafe.SliceData(sids))), uintptr(unsafe.Pointer(&token)))
	if ok == 0 {
		return 0, fmt.Errorf("CreateRestrictedToken: %w", err)
	}
	if err := errors.Join(p.lowerIntegrity(token), p.setDefaults(token, own)); err != nil {
		return 0, errors.Join(err, token.Close())
	}
	if restricted, err := token.IsRestricted(); err != nil || !restricted {
		return 0, errors.Join(fmt.Errorf("the token that was made is not restricted"), err, token.Close())
	}
	return token, nil
}

func (p Plan) restricting(own windows.Token) ([]windows.SIDAndAttributes, error) {
	var out []windows.SIDAndAttributes
	for _, text := range p.Restricting {
		if text != logon {
			sid, err := windows.StringToSid(text)
			if err != nil {
				return nil, fmt.Errorf("sid %q: %w", text, err)
			}
			out = append(out, windows.SIDAndAttributes{Sid: sid})
			continue
		}
		groups, err := own.GetTokenGroups()
		if err != nil {
			return nil, err
		}
		for _, group := range groups.AllGroups() {
			if group.Attributes&windows.SE_GROUP_LOGON_ID == windows.SE_GROUP_LOGON_ID {
				sid, err := group.Sid.Copy()
				if err != nil {
					return nil, err
				}
				out = append(out, windows.SIDAndAttributes{Sid: sid})
			}
		}
	}
	if !slices.ContainsFunc(out, func(s windows.SIDAndAttributes) bool { return s.Sid.String() == p.SID }) {
		return nil, fmt.Errorf("the plan's own sid %s is not among the restricting ones", p.SID)
	}
	return out, nil
}

func (p Plan) lowerIntegrity(token windows.Token) error {
	sid, err := windows.StringToSid(p.Integrity)
	if err != nil {
		return fmt.Errorf("integrity %q: %w", p.Integrity, err)
	}
	label := windows.Tokenmandatorylabel{Label: windows.SIDAndAttributes{Sid: sid, Attributes: windows.SE_GROUP_INTEGRITY}}
	if err := windows.SetTokenInformation(token, windows.TokenIntegrityLevel, (*byte)(unsafe.Pointer(&label)), label.Size()); err != nil {
		return fmt.Errorf("integrity %s: %w", p.Integrity, err)
	}
	return nil
}

// setDefaults lets the process use what it makes itself: without our SID in the default list it
// could not open its own pipes and events.
func (p Plan) setDefaults(token, own windows.Token) error {
	user, err := own.GetTokenUser()
	if err != nil {
		return err
	}
	sid, err := windows.StringToSid(p.SID)
	if err != nil {
		return err
	}
	acl, err := windows.ACLFromEntries([]windows.EXPLICIT_ACCESS{
		entry(user.User.Sid, windows.GRANT_ACCESS, windows.GENERIC_ALL, windows.NO_INHERITANCE),
		entry(sid, windows.GRANT_ACCESS, windows.GENERIC_ALL, windows.NO_INHERITANCE),
	}, nil)
	if err != nil {
		return fmt.Errorf("default access list: %w", err)
	}
	list := struct{ acl *windows.ACL }{acl} // TOKEN_DEFAULT_DACL
	if err := windows.SetTokenInformation(token, windows.TokenDefaultDacl, (*byte)(unsafe.Pointer(&list)), uint32(unsafe.Sizeof(list))); err != nil {
		return fmt.Errorf("default access list: %w", err)
	}
	return nil
}

func entry(sid *windows.SID, mode windows.ACCESS_MODE, mask windows.ACCESS_MASK, inheritance uint32) windows.EXPLICIT_ACCESS {
	return windows.EXPLICIT_ACCESS{
		AccessPermissions: mask, AccessMode: mode, Inheritance: inheritance,
		Trustee: windows.TRUSTEE{
			TrusteeForm: windows.TRUSTEE_IS_SID, TrusteeType: windows.TRUSTEE_IS_UNKNOWN, TrusteeValue: windows.TrusteeValueFromSID(sid),
		},
	}
}

// Probe makes a token and a job like those of a plan and gives them back: it starts nothing.
func Probe() error {
	p, err := New(Request{Name: "pioneer-super probe"})
	if err != nil {
		return err
	}
	token, err := p.token()
	if err != nil {
		return fmt.Errorf("restricted token: %w", err)
	}
	job, err := p.job()
	if err != nil {
		return errors.Join(fmt.Errorf("job object: %w", err), token.Close())
	}
	return errors.Join(token.Close(), job.Close())
}
