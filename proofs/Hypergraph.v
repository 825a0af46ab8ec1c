(** Derivation hypergraphs, their least fixpoint, and the contract of maintenance.

    What lives here: facts ([node]) and rule instances ([deriv]) as a finite hypergraph; presence,
    ranks, heights and supports, with the names of docs/concepts/maintenance.py; derivability, which
    is the least fixpoint; the contract, which is what [check] of that file recounts.
    Main theorem: [contract_least_fixpoint]. A state that keeps the contract holds exactly what is
    derivable. It rests on [well_founded_presence], which asks for any well-founded order.

    What is not here: how the contract is restored after an edit (Twin.v, Wave.v, Grow.v). *)

From Coq Require Export List Bool Arith Lia Wellfounded.
Export ListNotations.

(** Facts, and rule instances with a head and a body. Both kinds are finite. Two rules that derive
    one head from one body are two derivations. *)
Class hypergraph := {
  node : Type;
  deriv : Type;
  head : deriv -> node;
  body : deriv -> list node;
  node_eq : forall x y : node, {x = y} + {x <> y};
  nodes : list node;
  nodes_all : forall x, In x nodes;
  nodes_once : NoDup nodes;
  derivs : list deriv;
  derivs_all : forall d, In d derivs;
  derivs_once : NoDup derivs }.

(** How many members of a list a test accepts. *)
Definition count {A} (test : A -> bool) (l : list A) : nat := length (filter test l).

Section Contract.
Context {H : hypergraph}.

(** A set of input facts, and a set of derivations: those whose rule and whose premises of lower
    strata hold. Both change from commit to commit. *)
Definition facts := node -> bool.
Definition derivations := deriv -> bool.

(** What follows from the input facts: the least set with them and closed under the derivations. *)
Inductive derivable (given : facts) (holds : derivations) : node -> Prop :=
| derivable_given f : given f = true -> derivable given holds f
| derivable_by d : holds d = true -> (forall f, In f (body d) -> derivable given holds f) ->
    derivable given holds (head d).

(** [derivable] is a fixpoint of one round of derivation, and lies in every set that is closed under
    it: it is the least one. *)
Definition closed (given : facts) (holds : derivations) (p : node -> Prop) : Prop :=
  (forall f, given f = true -> p f) /\
  (forall d, holds d = true -> (forall f, In f (body d) -> p f) -> p (head d)).

Theorem derivable_closed given holds : closed given holds (derivable given holds).
Proof. split; [apply derivable_given | apply derivable_by]. Qed.

Theorem derivable_least given holds p : closed given holds p ->
  forall f, derivable given holds f -> p f.
Proof. intros [base step] f from. induction from; auto. Qed.

(** Presence is least whenever supports descend along some well-founded order. *)
Theorem well_founded_presence given holds (p : node -> Prop) (lower : node -> node -> Prop) :
  well_founded lower ->
  closed given holds p ->
  (forall f, p f -> given f = true \/
     exists d, holds d = true /\ head d = f /\ forall g, In g (body d) -> p g /\ lower g f) ->
  forall f, p f <-> derivable given holds f.
Proof.
  intros wf cl supported f. split; [|apply derivable_least; assumption].
  induction f as [f IH] using (well_founded_ind wf). intros pf.
  destruct (supported f pf) as [g | (d & hd & <- & below)]; [now constructor|].
  apply derivable_by; [assumption|]. intros g ing. destruct (below g ing). now apply IH.
Qed.

(** ** The state: ranks and supports *)

(** The present facts, each with its rank. *)
Definition ranks := node -> option nat.

Definition present (rank : ranks) (f : node) : bool :=
  match rank f with Some _ => true | None => false end.

(** The rank of a fact; of an absent one, 0. *)
Definition rank_of (rank : ranks) (f : node) : nat :=
  match rank f with Some r => r | None => 0 end.

(** The highest rank in a body; a derivation supports exactly the heads ranked above it. *)
Definition height (rank : ranks) (b : list node) : nat := list_max (map (rank_of rank) b).

(** Whether all premises of a derivation are present. *)
Definition stands (rank : ranks) (d : deriv) : bool := forallb (present rank) (body d).

Definition same (x y : node) : bool := if node_eq x y then true else false.
Definition member (x : node) (l : list node) : bool := existsb (same x) l.

Definition supports (rank : ranks) (d : deriv) : bool :=
  present rank (head d) && stands rank d && (height rank (body d) <? rank_of rank (head d)).

(** The number of supports of a fact. *)
Definition supporting (holds : derivations) (rank : ranks) (f : node) : nat :=
  count (fun d => holds d && same (head d) f && supports rank d) derivs.

(** The contract between commits, as docs/semantics.md has it. *)
Record contract (given : facts) (holds : derivations) (rank : ranks) (support : node -> nat)
  : Prop := {
  counted : forall f, present rank f = true ->
    support f = Nat.b2n (given f) + supporting holds rank f;
  supported : forall f, present rank f = true -> 1 <= support f;
  given_present : forall f, given f = true -> present rank f = true;
  heads_present : forall d, holds d = true -> stands rank d = true ->
    present rank (head d) = true }.

(** ** Small facts about the definitions *)

Lemma same_spec x y : same x y = true <-> x = y.
Proof. unfold same. destruct (node_eq x y); split; congruence. Qed.

Lemma same_refl x : same x x = true.
Proof. now apply same_spec. Qed.

Lemma same_not x y : x <> y -> same x y = false.
Proof. unfold same. destruct (node_eq x y); congruence. Qed.

Lemma member_spec x l : member x l = true <-> In x l.
Proof.
  unfold member. rewrite existsb_exists. split.
  - intros (y & i & e). apply same_spec in e. now subst.
  - intros i. exists x. split; [assumption | apply same_refl].
Qed.

Lemma member_not x l : member x l = false <-> ~ In x l.
Proof. rewrite <- member_spec. destruct (member x l); split; congruence. Qed.

Lemma present_some rank f : present rank f = true <-> rank f = Some (rank_of rank f).
Proof. unfold present, rank_of. destruct (rank f); split; congruence. Qed.

Lemma stands_spec rank d :
  stands rank d = true <-> forall g, In g (body d) -> present rank g = true.
Proof. apply forallb_forall. Qed.

Lemma height_ge rank b g : In g b -> rank_of rank g <= height rank b.
Proof.
  intros i. unfold height.
  assert (bound : list_max (map (rank_of rank) b) <= list_max (map (rank_of rank) b)) by lia.
  apply list_max_le in bound. rewrite Forall_map, Forall_forall in bound. now apply bound.
Qed.

Lemma height_le rank b m : height rank b <= m <-> forall g, In g b -> rank_of rank g <= m.
Proof. unfold height. now rewrite list_max_le, Forall_map, Forall_forall. Qed.

Lemma height_lt rank b m :
  height rank b < m <-> 0 < m /\ forall g, In g b -> rank_of rank g < m.
Proof.
  destruct m as [|m]; [split; [lia | intros [? _]; lia]|]. split.
  - intros lt. split; [lia|]. intros g i. pose proof (height_ge rank b g i). lia.
  - intros [_ all]. apply Nat.lt_succ_r, height_le. intros g i. specialize (all g i). lia.
Qed.

Lemma height_same rank rank' b :
  (forall g, In g b -> rank_of rank' g = rank_of rank g) -> height rank' b = height rank b.
Proof.
  intros e. unfold height. f_equal. apply map_ext_in. exact e.
Qed.

Lemma height_mono rank rank' b :
  (forall g, In g b -> rank_of rank g <= rank_of rank' g) -> height rank b <= height rank' b.
Proof.
  intros e. apply height_le. intros g i. transitivity (rank_of rank' g); [auto|].
  now apply height_ge.
Qed.

Lemma supports_spec rank d :
  supports rank d = true <->
  present rank (head d) = true /\ stands rank d = true /\
  height rank (body d) < rank_of rank (head d).
Proof. unfold supports. now rewrite !andb_true_iff, Nat.ltb_lt, and_assoc. Qed.

(** ** Counting *)

Lemma count_split {A} (p q r : A -> bool) l :
  (forall x, In x l -> Nat.b2n (p x) = Nat.b2n (q x) + Nat.b2n (r x)) ->
  count p l = count q l + count r l.
Proof.
  unfold count. induction l as [|x l IH]; intros each; [reflexivity|]. cbn.
  assert (e := each x (or_introl eq_refl)).
  specialize (IH (fun y i => each y (or_intror i))).
  destruct (p x), (q x), (r x); cbn in *; lia.
Qed.

Lemma count_ext {A} (p q : A -> bool) l :
  (forall x, In x l -> p x = q x) -> count p l = count q l.
Proof. intros e. unfold count. now rewrite (filter_ext_in p q l e). Qed.

Lemma count_zero {A} (p : A -> bool) l : count p l = 0 <-> forall x, In x l -> p x = false.
Proof.
  unfold count. induction l as [|x l IH]; cbn; [split; easy|].
  destruct (p x) eqn:px; cbn.
  - split; [lia|]. intros all. specialize (all x (or_introl eq_refl)). congruence.
  - rewrite IH. split; [intros all y [<-|i]; auto | auto].
Qed.

Lemma count_some {A} (p : A -> bool) l : 1 <= count p l <-> exists x, In x l /\ p x = true.
Proof.
  split.
  - unfold count. intros c. destruct (filter p l) as [|x t] eqn:e; cbn in c; [lia|].
    exists x. apply filter_In. rewrite e. now left.
  - intros (x & i & px). destruct (count p l) eqn:e; [|lia].
    rewrite count_zero in e. specialize (e x i). congruence.
Qed.

Lemma count_heads (p : deriv -> bool) l x :
  count_occ node_eq (map head (filter p l)) x = count (fun d => p d && same (head d) x) l.
Proof.
  unfold count. induction l as [|d l IH]; [reflexivity|]. cbn. unfold same at 1.
  destruct (p d); cbn; [|assumption].
  destruct (node_eq (head d) x); cbn; congruence.
Qed.

Lemma count_nodes (p : facts) x : count_occ node_eq (filter p nodes) x = Nat.b2n (p x).
Proof.
  destruct (p x) eqn:px; cbn.
  - assert (NoDup (filter p nodes)) as once by apply NoDup_filter, nodes_once.
    rewrite (NoDup_count_occ node_eq) in once. specialize (once x).
    assert (In x (filter p nodes)) as i by (apply filter_In; split; [apply nodes_all | assumption]).
    apply (count_occ_In node_eq) in i. lia.
  - apply count_occ_not_In. intros i. apply filter_In in i. destruct i; congruence.
Qed.

Lemma supporting_zero holds rank f : supporting holds rank f = 0 <->
  forall d, holds d = true -> head d = f -> supports rank d = false.
Proof.
  unfold supporting. rewrite count_zero. split.
  - intros none d hd hf. specialize (none d (derivs_all d)). subst f.
    now rewrite hd, same_refl in none.
  - intros none d _. destruct (holds d) eqn:hd; [|reflexivity].
    destruct (same (head d) f) eqn:hf; [|reflexivity].
    apply same_spec in hf. cbn. now apply none.
Qed.

Lemma supporting_some holds rank f : 1 <= supporting holds rank f <->
  exists d, holds d = true /\ head d = f /\ supports rank d = true.
Proof.
  unfold supporting. rewrite count_some. split.
  - intros (d & _ & e). rewrite !andb_true_iff, same_spec in e. exists d. tauto.
  - intros (d & hd & hf & s). exists d. split; [apply derivs_all|].
    subst f. now rewrite hd, same_refl, s.
Qed.

(** ** The contract says: least fixpoint *)

Theorem contract_least_fixpoint given holds rank support :
  contract given holds rank support ->
  forall f, present rank f = true <-> derivable given holds f.
Proof.
  intros [exact least base heads].
  apply well_founded_presence with (lower := fun g f => rank_of rank g < rank_of rank f).
  - apply (wf_inverse_image _ _ lt (rank_of rank)), lt_wf.
  - split; [assumption|]. intros d hd all. apply heads; [assumption|]. now apply stands_spec.
  - intros f pf. specialize (exact f pf). specialize (least f pf).
    destruct (given f); [now left|right]. cbn in exact.
    assert (1 <= supporting holds rank f) as one by lia.
    apply supporting_some in one. destruct one as (d & hd & hf & s). exists d.
    apply supports_spec in s. destruct s as (_ & st & low). rewrite stands_spec in st.
    repeat split; auto. subst f. apply height_lt in low. now apply low.
Qed.

End Contract.
