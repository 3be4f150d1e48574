package sandbox

const systemWindows = "windows"

// noNetworkRule is why a restricted mode has no backend on Windows; the package restricted below has the rest.
const noNetworkRule = "a restricted token has the user's network, and the filters of Windows are an administrator's"

// planWindows refuses every restricted mode: each requires that the network can be refused.
func planWindows(r Request) (Profile, Report, error) {
	if !r.Host.RestrictedTokens {
		lack := "no restricted token: " + r.Host.RestrictedTokensLack
		return Profile{}, Report{Status: StatusUnavailable, Missing: []string{lack}}, &UnavailableError{"files", lack}
	}
	return Profile{}, Report{Status: StatusUnavailable, Missing: []string{noNetworkRule}}, &UnavailableError{"network", noNetworkRule}
}

// windowsFacts is [Host.Facts] on Windows.
func (h Host) windowsFacts() []Fact {
	return []Fact{
		{Name: "restricted token", Have: h.RestrictedTokens,
			Detail: choose(h.RestrictedTokens, "a token and a job object can be made; no command is started with them yet", h.RestrictedTokensLack)},
		{Name: "network rules", Detail: noNetworkRule},
		supervisionElsewhere,
	}
}
