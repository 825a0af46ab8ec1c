(** The algorithm of docs/concepts/maintenance.py, function by function and under its names.

    What lives here: the state of [Maintained], [lose], [best], [wave], [move], [overdelete], [wait],
    [rederive], [grow] and [commit]; no theorem. Loops of the twin that take something off a queue
    are relations, so that every order is covered that the twin's queues leave open: [wave_step] takes
    any suspect of lowest key, [grow_step] any fact of the queue.

    Where the twin joins rules with facts, the hypergraph is there already: [derivations] and [uses]
    are those of its derivations whose bodies stand. Where the twin changes input facts only, a commit
    here also drops and adds derivations, as a stratum sees it when strata below it, or rules, change. *)

From Deltafix Require Export Hypergraph.

Section Twin.
Context {H : hypergraph}.

(** [d[key] = value], for dictionaries as functions. *)
Definition set {A} (key : node) (value : A) (d : node -> A) : node -> A :=
  fun f => if node_eq key f then value else d f.

(** ** The state *)

(** A suspect on the heap: [(rank, waits, fact)]. The twin's tie-breaker is left out. *)
Record entry := Entry { at_ : nat; waits : bool; fact : node }.

(** The heap's order, [(rank, waits)] as one number; the kernel's heap has the same key. *)
Definition key (e : entry) : nat := 2 * at_ e + Nat.b2n (waits e).

Lemma key_lexicographic e e' : key e <= key e' <->
  at_ e < at_ e' \/ (at_ e = at_ e' /\ (waits e = true -> waits e' = true)).
Proof.
  unfold key. destruct (waits e), (waits e'); cbn; intuition (try lia; try congruence).
Qed.

(** [limbo f] is [None] if the fact is not in limbo, [Some None] if no derivation is left (NEVER), and
    else the rank of the wave at which it may come back. [fallen] and [revived] record what was
    overdeleted and rederived. Nothing reads them but the proofs. *)
Record state := State {
  rank : ranks;
  support : node -> nat;
  suspects : list entry;
  limbo : node -> option (option nat);
  moved : list node;
  fallen : list node;
  revived : list node }.

Definition heappush (e : entry) (s : state) : state :=
  State (rank s) (support s) (e :: suspects s) (limbo s) (moved s) (fallen s) (revived s).
Definition with_suspects (l : list entry) (s : state) : state :=
  State (rank s) (support s) l (limbo s) (moved s) (fallen s) (revived s).
Definition with_support (c : node -> nat) (s : state) : state :=
  State (rank s) c (suspects s) (limbo s) (moved s) (fallen s) (revived s).
Definition with_limbo (l : node -> option (option nat)) (s : state) : state :=
  State (rank s) (support s) (suspects s) l (moved s) (fallen s) (revived s).

(** ** Joins *)

(** The derivations that have a present fact in their body: [uses]. *)
Definition uses (holds : derivations) (rank : ranks) (f : node) : list deriv :=
  filter (fun d => holds d && member f (body d) && stands rank d) derivs.

(** The derivations of a fact over present facts, without those that use it: what [best] looks at. *)
Definition candidate (holds : derivations) (rank : ranks) (f : node) (d : deriv) : bool :=
  holds d && same (head d) f && stands rank d && negb (member f (body d)).

Definition minimum (first : nat) (l : list nat) : nat := fold_right Nat.min first l.

(** The lowest height among a fact's derivations, and how many have it. None: [(NEVER, 0)]. *)
Definition best (holds : derivations) (rank : ranks) (f : node) : option (nat * nat) :=
  match map (fun d => height rank (body d)) (filter (candidate holds rank f) derivs) with
  | [] => None
  | h :: t => Some (minimum h t, count_occ Nat.eq_dec (h :: t) (minimum h t))
  end.

(** ** Deleting: suspects in rank order *)

(** A support of a present fact is gone; without any, the fact is a suspect. *)
Definition lose (s : state) (f : node) : state :=
  let left := support s f - 1 in
  let s := with_support (set f left (support s)) s in
  if left =? 0 then heappush (Entry (rank_of (rank s) f) false f) s else s.

Definition lose_all (heads : list node) (s : state) : state := fold_left lose heads s.

Section Wave.
Variable holds : derivations.

(** Give a suspect a rank above its best derivations, and take it from heads up to there. *)
Definition move (f : node) (found : nat * nat) (s : state) : state :=
  let (h, c) := found in
  let lost := filter (fun d => present (rank s) (head d)
      && (height (rank s) (body d) <? rank_of (rank s) (head d))
      && (rank_of (rank s) (head d) <=? h + 1)) (uses holds (rank s) f) in
  let s := lose_all (map head lost) s in
  State (set f (Some (h + 1)) (rank s)) (set f c (support s)) (suspects s) (limbo s)
    (f :: moved s) (fallen s) (revived s).

(** Note at which rank of the wave a fact in limbo may come back, if at all. *)
Definition wait (f : node) (s : state) : state :=
  match best holds (rank s) f with
  | Some (h, _) => heappush (Entry h true f) (with_limbo (set f (Some (Some h)) (limbo s)) s)
  | None => with_limbo (set f (Some None) (limbo s)) s
  end.

(** Take a suspect out, and its derivations from what they supported. *)
Definition overdelete (f : node) (s : state) : state :=
  let lost := filter (fun d => present (rank s) (head d)
      && (height (rank s) (body d) <? rank_of (rank s) (head d))) (uses holds (rank s) f) in
  let s := lose_all (map head lost) s in
  wait f (State (set f None (rank s)) (set f 0 (support s)) (suspects s) (limbo s)
    (moved s) (f :: fallen s) (revived s)).

(** [reached < limbo], where None is NEVER. *)
Definition sooner (reached : nat) (limit : option nat) : bool :=
  match limit with Some n => reached <? n | None => true end.

(** A rederived fact offers one derivation that it takes part in. *)
Definition offer (s : state) (d : deriv) : state :=
  let reached := height (rank s) (body d) in
  if present (rank s) (head d) && (reached <? rank_of (rank s) (head d)) then
    with_support (set (head d) (support s (head d) + 1) (support s)) s
  else match limbo s (head d) with
  | Some limit => if sooner reached limit then
        heappush (Entry reached true (head d))
          (with_limbo (set (head d) (Some (Some reached)) (limbo s)) s)
      else s
  | None => s
  end.

(** The wave is at a limbo fact's best derivation: bring the fact back if it still holds. *)
Definition rederive (f : node) (at_rank : nat) (s : state) : state :=
  match best holds (rank s) f with
  | Some (h, c) =>
      if at_rank <? h then wait f s
      else
        let s := State (set f (Some (h + 1)) (rank s)) (set f c (support s)) (suspects s)
          (set f None (limbo s)) (moved s) (fallen s) (f :: revived s) in
        fold_left offer (uses holds (rank s) f) s
  | None => wait f s
  end.

Definition limbo_is (s : state) (f : node) (n : nat) : bool :=
  match limbo s f with Some (Some m) => m =? n | _ => false end.
Definition rank_is (s : state) (f : node) (n : nat) : bool :=
  match rank s f with Some r => r =? n | None => false end.

(** The body of [wave]'s loop, for the entry that was popped. *)
Definition take (e : entry) (s : state) : state :=
  let f := fact e in
  if waits e then (if limbo_is s f (at_ e) then rederive f (at_ e) s else s)
  else if rank_is s f (at_ e) && (support s f =? 0) then
    (if member f (moved s) then overdelete f s
     else match best holds (rank s) f with
          | Some found => move f found s
          | None => overdelete f s
          end)
  else s.

(** One turn of the loop with the entries in no order at all: what every schedule does. *)
Inductive any_step (s : state) : state -> Prop :=
| any_take before e after : suspects s = before ++ e :: after ->
    any_step s (take e (with_suspects (before ++ after) s)).

(** One turn of the loop: the entry that is taken has the lowest key. *)
Inductive wave_step (s : state) : state -> Prop :=
| wave_take before e after : suspects s = before ++ e :: after ->
    (forall other, In other (before ++ after) -> key e <= key other) ->
    wave_step s (take e (with_suspects (before ++ after) s)).

Inductive wave (s : state) : state -> Prop :=
| wave_over : suspects s = [] -> wave s s
| wave_next s' s'' : wave_step s s' -> wave s' s'' -> wave s s''.

End Wave.

(** ** Inserting: semi-naive, one fact at a time *)

(** [pending f] is the support of a fact that is about to be true; 0: it is not. *)
Record growth := Growth {
  g_rank : ranks;
  g_support : node -> nat;
  pending : node -> nat;
  queue : list node }.

Definition gain (g : growth) (f : node) : growth :=
  if present (g_rank g) f then
    Growth (g_rank g) (set f (g_support g f + 1) (g_support g)) (pending g) (queue g)
  else
    Growth (g_rank g) (g_support g) (set f (pending g f + 1) (pending g))
      (if pending g f =? 0 then queue g ++ [f] else queue g).

Definition gain_all (heads : list node) (g : growth) : growth := fold_left gain heads g.

(** [max(self.rank.values(), default=0) + 1] *)
Definition next_rank (rank : ranks) : nat := height rank nodes + 1.

(** The body of [grow]'s loop, for the fact that was taken from the queue. *)
Definition take_new (holds : derivations) (f : node) (g : growth) : growth :=
  let rank := set f (Some (next_rank (g_rank g))) (g_rank g) in
  let fresh := filter (fun d => negb (present rank (head d))) (uses holds rank f) in
  gain_all (map head fresh)
    (Growth rank (set f (pending g f) (g_support g)) (set f 0 (pending g)) (queue g)).

Inductive grow_step (holds : derivations) (g : growth) : growth -> Prop :=
| grow_take before f after : queue g = before ++ f :: after ->
    grow_step holds g
      (take_new holds f (Growth (g_rank g) (g_support g) (pending g) (before ++ after))).

Inductive grow (holds : derivations) (g : growth) : growth -> Prop :=
| grow_over : queue g = [] -> grow holds g g
| grow_next g' g'' : grow_step holds g g' -> grow holds g' g'' -> grow holds g g''.

(** ** Commits *)

(** What is kept between commits. *)
Record database := Database {
  given : facts;
  holds : derivations;
  db_rank : ranks;
  db_support : node -> nat }.

(** An edit of input facts and of derivations. What it deletes and inserts may overlap. Inserts that are
    [early] are counted before the wave where their fact is present: the twin has none, in the kernel
    (phase SAVE) all are. *)
Record edit := Edit {
  delete : facts;
  insert : facts;
  drop : derivations;
  add : derivations;
  early_facts : facts;
  early : derivations }.

Definition given_left (e : edit) (db : database) : facts := fun f => given db f && negb (delete e f).
Definition holds_left (e : edit) (db : database) : derivations :=
  fun d => holds db d && negb (drop e d).
Definition given_wave (e : edit) (db : database) : facts :=
  fun f => given_left e db f || (insert e f && early_facts e f && present (db_rank db) f).
Definition holds_wave (e : edit) (db : database) : derivations :=
  fun d => holds_left e db d || (add e d && early e d).
Definition given_after (e : edit) (db : database) : facts := fun f => given_left e db f || insert e f.
Definition holds_after (e : edit) (db : database) : derivations :=
  fun d => holds_left e db d || add e d.

(** An early insert gives a present fact one support more. *)
Definition save (s : state) (f : node) : state :=
  with_support (set f (support s f + 1) (support s)) s.

Definition save_all (heads : list node) (s : state) : state := fold_left save heads s.

(** The first loop of [commit]: deleted facts lose their support, heads of dropped derivations too. *)
Definition start_wave (e : edit) (db : database) : state :=
  let lost := filter (fun d => holds db d && drop e d && supports (db_rank db) d) derivs in
  let saved := filter (fun d => negb (holds_left e db d) && add e d && early e d
      && supports (db_rank db) d) derivs in
  save_all (filter (fun f => negb (given_left e db f) && given_wave e db f) nodes)
    (save_all (map head saved)
      (lose_all (filter (fun f => given db f && delete e f) nodes)
        (lose_all (map head lost)
          (State (db_rank db) (db_support db) [] (fun _ => None) [] [] [])))).

(** The first loop of [grow]: inserted facts, and heads of added derivations whose bodies stand. *)
Definition start_grow (e : edit) (db : database) (rank : ranks) (support : node -> nat) : growth :=
  let news := filter (fun d => negb (holds_left e db d) && add e d && stands rank d
      && (negb (present rank (head d))
          || (negb (early e d) && (height rank (body d) <? rank_of rank (head d))))) derivs in
  gain_all (filter (fun f => insert e f && negb (given_wave e db f)) nodes)
    (gain_all (map head news) (Growth rank support (fun _ => 0) [])).

Inductive commit (e : edit) (db : database) : database -> Prop :=
| committed s g :
    wave (holds_wave e db) (start_wave e db) s ->
    grow (holds_after e db) (start_grow e db (rank s) (support s)) g ->
    commit e db (Database (given_after e db) (holds_after e db) (g_rank g) (g_support g)).

(** What [commit] returns. *)
Definition added (before after : database) (f : node) : bool :=
  present (db_rank after) f && negb (present (db_rank before) f).
Definition removed (before after : database) (f : node) : bool :=
  present (db_rank before) f && negb (present (db_rank after) f).

End Twin.
