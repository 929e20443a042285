# SPDX-License-Identifier: Apache-2.0
"""Group the values that one kernel computes.

A group is a root (a product, a convolution, a reduction, or an elementwise value) and the elementwise values that follow it with the
same shape, as long as exactly one value leaves the group: intermediate values stay in registers. Elementwise values that only the group
uses join it. A group never takes a value that depends on it, so the groups have an order: each is emitted at the position of its last
member.
"""
import dataclasses

from .graph import users_of

ROOTS = ("conv", "matmul", "reduce", "softmax", "layernorm", "window", "gather", "pw")
MOST_MEMBERS = 24
MOST_OPERANDS = 12


@dataclasses.dataclass
class Group:
    root: object
    members: list  # in order of evaluation; the root comes first, except in elementwise groups
    result: object  # the one value that other groups read


class Fuser:
    def __init__(self, order, outputs):
        self.order, self.users = order, users_of(order)
        self.place = {v.number: i for i, v in enumerate(order)}
        self.outputs = {v.number for v in outputs}
        self.group_of = {}
        self.ancestors = {}
        for value in order:
            bits = 1 << self.place[value.number]
            for source in value.inputs:
                bits |= self.ancestors[source.number]
            self.ancestors[value.number] = bits

    def live(self, members):
        inside = {v.number for v in members}
        return [v for v in members if v.number in self.outputs or any(u.number not in inside for u in self.users[v.number])]

    def operands(self, members):
        inside = {v.number for v in members}
        return {s.number for v in members for s in v.inputs if s.number not in inside and not (s.op == "const" and s.size == 1)}

    def joins(self, value, members, mask):
        """The group's members after `value` joins, with all values that must join too; None if `value` cannot join."""
        inside = {v.number for v in members}
        added = []

        def visit(v):
            for source in v.inputs:
                if source.number in inside or source in added or source.op == "const":
                    continue
                known = inside | {a.number for a in added} | {value.number}
                if source.op == "pw" and source.shape == value.shape and source.number not in self.group_of and \
                        source.number not in self.outputs and all(u.number in known for u in self.users[source.number]) and \
                        not self.ancestors[source.number] & mask:
                    visit(source)
                    added.append(source)
                elif self.ancestors[source.number] & mask:
                    return False
            return True

        if not visit(value):
            return None
        grown = members + added + [value]
        return grown if len(grown) <= MOST_MEMBERS and len(self.operands(grown)) <= MOST_OPERANDS else None

    def next_member(self, members, refused):
        inside = {v.number for v in members}
        found = [u for v in members for u in self.users[v.number]
                 if u.op == "pw" and u.shape == members[0].shape and u.number not in inside | refused and u.number not in self.group_of]
        return min(found, key=lambda u: self.place[u.number], default=None)

    def grow(self, root):
        members, refused, best = [root], set(), [root]
        if root.op == "pw":
            members = self.joins(root, [], 0) or [root]
            best = members
        mask = sum(1 << self.place[v.number] for v in members)
        while True:
            value = self.next_member(members, refused)
            if value is None:
                break
            grown = self.joins(value, members, mask)
            if grown is None:
                refused.add(value.number)
                continue
            members = grown
            mask = sum(1 << self.place[v.number] for v in members)
            if len(self.live(members)) == 1:
                best = members
        return best

    def run(self):
        groups = []
        for value in self.order:
            if value.op not in ROOTS or value.number in self.group_of:
                continue
            # an elementwise value waits until a group of a value that uses it takes it in; otherwise it becomes its
            # own group below
            if value.op == "pw" and self.taken_later(value):
                continue
            groups.append(self.take(value))
        for value in self.order:
            if value.op == "pw" and value.number not in self.group_of:
                groups.append(self.take(value))
        return self.in_order(groups)

    def take(self, value):
        members = self.grow(value)
        group = Group(value, members, self.live(members)[-1] if self.live(members) else members[-1])
        for v in members:
            self.group_of[v.number] = group
        return group

    def taken_later(self, value):
        """Whether the value's only user is an elementwise value of the same shape that follows a later root."""
        users = {u.number: u for u in self.users[value.number]}
        if len(users) != 1 or value.number in self.outputs:
            return False
        user = next(iter(users.values()))
        return user.op == "pw" and user.shape == value.shape and any(
            s.op in ROOTS and s.op != "pw" and s.shape == user.shape and s.number not in self.group_of for s in user.inputs)

    def in_order(self, groups):
        return sorted(groups, key=lambda g: max(self.place[v.number] for v in g.members))


def fuse(order, outputs):
    return Fuser(order, outputs).run()
