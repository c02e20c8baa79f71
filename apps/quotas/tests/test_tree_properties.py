"""What holds for every tree: conservation, limits, and that order does not matter."""

from decimal import Decimal as D
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from apps.quotas.tree import Cell, Key, QuotaNode, QuotaTree

FR = ("h100", "nvidia.com/gpu")
amounts = st.integers(0, 12).map(D)
limits = st.none() | amounts


@st.composite
def forests(draw: st.DrawFn) -> list[QuotaNode]:
    """Up to 6 cohorts in a tree of any depth (a cohort hangs under an earlier one) and up to 8 queues."""
    count = draw(st.integers(1, 6))
    nodes = []
    for index in range(count):
        above = draw(st.none() | st.integers(0, index - 1)) if index else None
        parent = None if above is None else f"c{above}"
        cells = {FR: Cell(draw(amounts), draw(limits), draw(limits))} if draw(st.booleans()) else {}
        nodes.append(QuotaNode(f"c{index}", "Cohort", parent, cells))
    for index in range(draw(st.integers(1, 8))):
        parent = draw(st.none() | st.integers(0, count - 1).map("c{}".format))
        nominal, borrow, lend = draw(amounts), draw(limits), draw(limits)
        lend = None if lend is None else min(lend, nominal)
        nodes.append(QuotaNode(f"q{index}", "ClusterQueue", parent, {FR: Cell(nominal, borrow, lend)}))
    return nodes


def queues(nodes: list[QuotaNode]) -> list[str]:
    return [node.name for node in nodes if node.kind == "ClusterQueue"]


usages = st.lists(amounts, min_size=8, max_size=8)
quick = settings(max_examples=150, deadline=None)


def held(nodes: list[QuotaNode], amounts_: list[D]) -> dict[str, dict[tuple[str, str], D]]:
    return {name: {FR: amount} for name, amount in zip(queues(nodes), amounts_, strict=False)}


def everything(tree: QuotaTree) -> dict[Key, tuple[D, ...]]:
    return {
        key: (
            tree.subtree_quota(*key, FR),
            tree.local_quota(*key, FR),
            tree.usage(*key, FR),
            tree.available(*key, FR),
            tree.potential_available(*key, FR),
            tree.borrowed(*key, FR),
            tree.lent(*key, FR),
        )
        for key in tree
    }


@quick
@given(forests(), usages)
def test_a_cohort_holds_what_its_children_hold_beyond_their_own(
    nodes: list[QuotaNode], amounts_: list[D]
) -> None:
    tree = QuotaTree(nodes, held(nodes, amounts_))
    for key in tree:
        if key[0] == "Cohort":
            beyond = [
                max(D(0), tree.usage(*child, FR) - tree.local_quota(*child, FR))
                for child in tree.children(*key)
            ]
            assert tree.usage(*key, FR) == sum(beyond)


@quick
@given(forests(), usages)
def test_borrowed_equals_lent_plus_taken_plus_what_roots_are_over(
    nodes: list[QuotaNode], amounts_: list[D]
) -> None:
    tree = QuotaTree(nodes, held(nodes, amounts_))
    for root in tree.roots:
        inside = [key for key in tree if tree.root_of(*key) == root]
        borrowed = sum(tree.borrowed(*key, FR) for key in inside if key[0] == "ClusterQueue")
        lent = sum(tree.lent(*key, FR) for key in inside if key[0] == "ClusterQueue")
        taken = sum(tree.taken(key[1], FR) for key in inside if key[0] == "Cohort")
        over = (
            max(D(0), tree.usage(*root, FR) - tree.subtree_quota(*root, FR)) if root[0] == "Cohort" else D(0)
        )
        assert borrowed == lent + taken + over


@quick
@given(forests(), usages)
def test_nobody_lends_more_than_the_limit_or_than_is_unused(
    nodes: list[QuotaNode], amounts_: list[D]
) -> None:
    tree = QuotaTree(nodes, held(nodes, amounts_))
    for key in tree:
        lent, cell = tree.lent(*key, FR), tree.cell(*key, FR)
        assert lent >= 0
        if cell is not None and cell.lending_limit is not None:
            assert lent <= cell.lending_limit
        assert lent <= max(D(0), tree.subtree_quota(*key, FR) - tree.usage(*key, FR))


@quick
@given(forests(), st.lists(st.tuples(st.integers(0, 7), st.integers(1, 9)), max_size=25))
def test_admission_within_available_never_breaks_a_root_a_limit_or_a_home(
    nodes: list[QuotaNode], asks: list[tuple[int, int]]
) -> None:
    tree = QuotaTree(nodes)
    names = queues(nodes)
    for index, ask in asks:
        queue = names[index % len(names)]
        if tree.available("ClusterQueue", queue, FR) >= ask:
            tree.add_usage(queue, {FR: D(ask)})
        for root in tree.roots:
            assert tree.usage(*root, FR) <= tree.subtree_quota(*root, FR)
        for key in tree:
            assert tree.available(*key, FR) <= tree.potential_available(*key, FR)
            assert tree.usage(*key, FR) <= tree.potential_available(*key, FR)
            left_at_home = max(D(0), tree.local_quota(*key, FR) - tree.usage(*key, FR))
            assert tree.available(*key, FR) >= 0 or tree.parent(*key) is not None
            parent = tree.parent(*key)
            if parent is None or tree.available("Cohort", parent, FR) >= 0:
                assert tree.available(*key, FR) >= left_at_home


@quick
@given(forests(), usages, st.randoms(use_true_random=False))
def test_order_of_nodes_and_of_arrivals_is_irrelevant(
    nodes: list[QuotaNode], amounts_: list[D], random: Random
) -> None:
    whole = QuotaTree(nodes, held(nodes, amounts_))
    shuffled = list(nodes)
    random.shuffle(shuffled)
    stepwise = QuotaTree(shuffled)
    steps = [(name, D(1)) for name, cells in held(nodes, amounts_).items() for _ in range(int(cells[FR]))]
    random.shuffle(steps)
    for name, amount in steps:
        stepwise.add_usage(name, {FR: amount})
    assert everything(stepwise) == everything(whole)


@quick
@given(forests(), usages, st.integers(0, 13), st.integers(1, 5))
def test_raising_a_nominal_never_lowers_a_ceiling(
    nodes: list[QuotaNode], amounts_: list[D], index: int, more: int
) -> None:
    before = QuotaTree(nodes)
    chosen = nodes[index % len(nodes)]
    cell = chosen.cells.get(FR, Cell(D(0)))
    raised = QuotaNode(
        chosen.name,
        chosen.kind,
        chosen.parent,
        {FR: Cell(cell.nominal + more, cell.borrowing_limit, cell.lending_limit)},
    )
    after = QuotaTree([raised if node is chosen else node for node in nodes])
    for key in before:
        assert after.potential_available(*key, FR) >= before.potential_available(*key, FR)


def below(tree: QuotaTree, key: Key) -> list[Key]:
    return [key, *(inner for child in tree.children(*key) for inner in below(tree, child))]


@quick
@given(forests(), usages)
def test_a_subtree_that_is_not_over_holds_at_most_its_ceiling(
    nodes: list[QuotaNode], amounts_: list[D]
) -> None:
    tree = QuotaTree(nodes, held(nodes, amounts_))
    for key in tree:
        if not tree.over(*key, FR):
            queues_ = [inner for inner in below(tree, key) if inner[0] == "ClusterQueue"]
            assert sum(tree.usage(*queue, FR) for queue in queues_) <= tree.subtree_ceiling(*key, FR)


@quick
@given(forests())
def test_the_ceiling_of_a_whole_tree_is_all_its_nominal_quota(nodes: list[QuotaNode]) -> None:
    tree = QuotaTree(nodes)
    for root in tree.roots:
        cells = [tree.cell(*key, FR) for key in below(tree, root)]
        assert tree.subtree_ceiling(*root, FR) == sum(cell.nominal for cell in cells if cell is not None)


@quick
@given(forests(), st.integers(0, 7), st.integers(1, 9))
def test_admission_never_changes_another_tree(nodes: list[QuotaNode], index: int, ask: int) -> None:
    tree = QuotaTree(nodes)
    before = everything(tree)
    names = queues(nodes)
    name = names[index % len(names)]
    tree.add_usage(name, {FR: D(ask)})
    touched = tree.root_of("ClusterQueue", name)
    after = everything(tree)
    assert all(after[key] == before[key] for key in tree if tree.root_of(*key) != touched)


@quick
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=6, unique_by=lambda edge: edge[0]))
def test_any_parent_graph_terminates_and_names_each_cycle_once(edges: list[tuple[int, int]]) -> None:
    nodes = [QuotaNode(f"c{child}", "Cohort", f"c{above}", {}) for child, above in edges]
    tree = QuotaTree(nodes)
    members = [name for cycle in tree.cycles for name in cycle]
    assert len(members) == len(set(members))
    parent = {f"c{child}": f"c{above}" for child, above in edges}
    for cycle in tree.cycles:
        assert [parent[name] for name in cycle] == [*cycle[1:], cycle[0]]


@quick
@given(forests(), usages)
def test_loans_add_up_to_what_is_lent_taken_and_borrowed(nodes: list[QuotaNode], amounts_: list[D]) -> None:
    tree = QuotaTree(nodes, held(nodes, amounts_))
    lent: dict[Key, D] = {}
    borrowed: dict[Key, D] = {}
    for loan in tree.loans(FR):
        assert loan.amount > 0
        assert loan.amount == loan.amount.to_integral_value()
        assert loan.lender != loan.borrower
        lent[loan.lender] = lent.get(loan.lender, D(0)) + loan.amount
        borrowed[loan.borrower] = borrowed.get(loan.borrower, D(0)) + loan.amount
    for key in tree:
        owed = tree.lent(*key, FR) if key[0] == "ClusterQueue" else tree.taken(key[1], FR)
        assert lent.get(key, D(0)) == owed
        assert borrowed.get(key, D(0)) <= tree.borrowed(*key, FR)
    for root in tree.roots:
        members = [key for key in below(tree, root) if key[0] == "ClusterQueue"]
        over = max(D(0), tree.usage(*root, FR) - tree.subtree_quota(*root, FR)) if len(members) else D(0)
        missing = sum(tree.borrowed(*key, FR) - borrowed.get(key, D(0)) for key in members)
        assert missing == (over if root[0] == "Cohort" else 0)


cells_ = st.dictionaries(st.just(FR), st.builds(Cell, amounts, limits, limits))


@quick
@given(forests(), usages, st.lists(st.tuples(st.integers(0, 13), cells_, st.booleans()), max_size=12))
def test_a_tree_that_took_changes_equals_a_tree_built_anew(
    nodes: list[QuotaNode],
    amounts_: list[D],
    edits: list[tuple[int, dict[tuple[str, str], Cell], bool]],
) -> None:
    tree = QuotaTree(nodes, held(nodes, amounts_))
    current = list(nodes)
    for index, cells, moves in edits:
        at = index % len(current)
        old = current[at]
        parent = (
            f"c{index % 7}" if moves else old.parent
        )  # c6 may be implicit; a cohort may come to stand in a ring
        current[at] = QuotaNode(old.name, old.kind, parent, cells)
        tree.replace_node(current[at])
        fresh = QuotaTree(current, held(nodes, amounts_))
        assert everything(tree) == everything(fresh)
        assert tree.cycles == fresh.cycles
        assert tree.loans(FR) == fresh.loans(FR)
        for key in fresh:
            assert tree.subtree_ceiling(*key, FR) == fresh.subtree_ceiling(*key, FR)
            assert tree.weighted_share(*key) == fresh.weighted_share(*key)


@quick
@given(forests(), usages, st.integers(0, 13))
def test_taking_a_node_out_and_putting_it_back_changes_nothing(
    nodes: list[QuotaNode], amounts_: list[D], index: int
) -> None:
    tree = QuotaTree(nodes, held(nodes, amounts_))
    before = everything(tree)
    gone = nodes[index % len(nodes)]
    tree.remove_node(gone.kind, gone.name)
    rest = [node for node in nodes if node is not gone]
    assert everything(tree) == everything(QuotaTree(rest, held(nodes, amounts_)))
    tree.replace_node(gone)
    assert everything(tree) == before


@quick
@given(forests(), usages)
def test_what_is_available_is_never_more_than_the_ceiling(nodes: list[QuotaNode], amounts_: list[D]) -> None:
    """In every state, also in those that only a lowered quota leads to."""
    tree = QuotaTree(nodes, held(nodes, amounts_))
    for key in tree:
        assert tree.available(*key, FR) <= tree.potential_available(*key, FR)


@quick
@given(forests(), st.lists(st.tuples(st.integers(0, 7), st.integers(1, 9)), max_size=25))
def test_after_admissions_all_that_is_borrowed_is_lent_by_somebody(
    nodes: list[QuotaNode], asks: list[tuple[int, int]]
) -> None:
    """Work comes where there is room, and every fourth goes again: no root is ever over, nothing is owed to nobody."""
    tree = QuotaTree(nodes)
    names = queues(nodes)
    running: list[tuple[str, D]] = []
    for turn, (index, ask) in enumerate(asks):
        queue = names[index % len(names)]
        if tree.available("ClusterQueue", queue, FR) >= ask:
            tree.add_usage(queue, {FR: D(ask)})
            running.append((queue, D(ask)))
        if turn % 4 == 3 and running:
            queue, gone = running.pop(index % len(running))
            tree.add_usage(queue, {FR: -gone})
        for root in tree.roots:
            inside = below(tree, root)
            borrowed = sum(tree.borrowed(*key, FR) for key in inside if key[0] == "ClusterQueue")
            lent = sum(tree.lent(*key, FR) for key in inside if key[0] == "ClusterQueue")
            taken = sum(tree.taken(key[1], FR) for key in inside if key[0] == "Cohort")
            assert borrowed == lent + taken
