# SPDX-License-Identifier: Apache-2.0
#
# `make help`: a table of the lines `target: ... ## text | time or need` of the makefiles, in their order

/^[a-z][a-z0-9-]*:.* ## / {
	target = $0
	sub(/:.*/, "", target)
	text = $0
	sub(/.* ## /, "", text)
	need = ""
	if (split(text, part, / [|] /) == 2) {
		text = part[1]
		need = part[2]
	}
	n++
	targets[n] = target
	texts[n] = text
	needs[n] = need
	if (length(text) > width)
		width = length(text)
}

END {
	format = "%-22s %-" width "s  %s"
	line = sprintf(format, "make TARGET", "what it does", "time on two cores, or need")
	print line
	for (i = 1; i <= n; i++) {
		line = sprintf(format, targets[i], texts[i], needs[i])
		sub(/ +$/, "", line)
		print line
	}
}
