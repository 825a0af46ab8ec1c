(** The relations of Twin.v as a program that computes, with the twin's own choices.

    What lives here: [run_commit], which takes the least suspect of lowest key and the oldest fact of the
    queue, as the twin does; and hypergraphs written as tables, for computing with. Theorem:
    [run_commit_is_commit], so whatever is proved of commits holds for what it computes.
    tests/agree/test_proofs.py runs it beside the twin, and compares every rank and every support. *)

From Coq Require Import Eqdep_dec.
From Deltafix Require Export Commit.

Section Run.
Context {H : hypergraph}.

(** The place of a fact in [nodes]: the twin's tie-breaker, if the facts are listed in its order. *)
Fixpoint place (f : node) (l : list node) : nat :=
  match l with
  | x :: l => if node_eq f x then 0 else S (place f l)
  | [] => 0
  end.

Definition earlier (a b : entry) : bool :=
  (key a <? key b) || ((key a =? key b) && (place (fact a) nodes <? place (fact b) nodes)).

(** The least entry, with what lies before and after it. *)
Fixpoint heappop (e : entry) (l : list entry) : list entry * entry * list entry :=
  match l with
  | x :: l' =>
      let '(before, m, after) := heappop x l' in
      if earlier m e then (e :: before, m, after) else ([], e, l)
  | [] => ([], e, [])
  end.

Fixpoint run_wave (holds : derivations) (fuel : nat) (s : state) : option state :=
  match suspects s, fuel with
  | [], _ => Some s
  | e :: l, S fuel =>
      let '(before, m, after) := heappop e l in
      run_wave holds fuel (take holds m (with_suspects (before ++ after) s))
  | _ :: _, 0 => None
  end.

Fixpoint run_grow (holds : derivations) (fuel : nat) (g : growth) : option growth :=
  match queue g, fuel with
  | [], _ => Some g
  | f :: q, S fuel =>
      run_grow holds fuel (take_new holds f (Growth (g_rank g) (g_support g) (pending g) q))
  | _ :: _, 0 => None
  end.

(** None: the fuel was too little. *)
Definition run_commit (fuel : nat) (e : edit) (db : database) : option database :=
  match run_wave (holds_wave e db) fuel (start_wave e db) with
  | Some s =>
      match run_grow (holds_after e db) fuel (start_grow e db (rank s) (support s)) with
      | Some g => Some (Database (given_after e db) (holds_after e db) (g_rank g) (g_support g))
      | None => None
      end
  | None => None
  end.

Lemma earlier_key a b : (earlier a b = true -> key a <= key b) /\
  (earlier a b = false -> key b <= key a).
Proof.
  unfold earlier. destruct (key a <? key b) eqn:lt.
  - apply Nat.ltb_lt in lt. split; [lia|discriminate].
  - apply Nat.ltb_ge in lt. split; [|lia]. cbn [orb].
    destruct (key a =? key b) eqn:eq; [apply Nat.eqb_eq in eq; lia|discriminate].
Qed.

Lemma heappop_spec l : forall e before m after, heappop e l = (before, m, after) ->
  e :: l = before ++ m :: after /\ forall x, In x (before ++ after) -> key m <= key x.
Proof.
  induction l as [|x l IH]; intros e before m after; cbn [heappop].
  - intros eq. injection eq as <- <- <-. now split.
  - destruct (heappop x l) as [[b0 m0] a0] eqn:p. destruct (IH _ _ _ _ p) as [split_ low].
    destruct (earlier_key m0 e) as [yes no]. destruct (earlier m0 e); intros eq.
    + injection eq as <- <- <-. split; [now rewrite split_|].
      intros y [<-|i]; [now apply yes|now apply low].
    + injection eq as <- <- <-. split; [reflexivity|]. cbn [app]. rewrite split_. intros y i.
      apply in_app_iff in i. specialize (no eq_refl). cbn in i.
      assert (In y (b0 ++ a0) \/ m0 = y) as [j|<-]; [|specialize (low y j); lia|assumption].
      rewrite in_app_iff. tauto.
Qed.

Lemma run_wave_is_wave holds fuel : forall s s', run_wave holds fuel s = Some s' -> wave holds s s'.
Proof.
  induction fuel as [|fuel IH]; intros s s'; cbn [run_wave];
    destruct (suspects s) as [|e l] eqn:eq; intros run.
  1, 3: injection run as <-; now constructor.
  - discriminate.
  - destruct (heappop e l) as [[b m] a] eqn:p. apply heappop_spec in p. destruct p as [split_ low].
    apply wave_next with (2 := IH _ _ run). apply wave_take; [|assumption]. congruence.
Qed.

Lemma run_grow_is_grow holds fuel : forall g g', run_grow holds fuel g = Some g' -> grow holds g g'.
Proof.
  induction fuel as [|fuel IH]; intros g g'; cbn [run_grow];
    destruct (queue g) as [|f q] eqn:eq; intros run.
  1, 3: injection run as <-; now constructor.
  - discriminate.
  - apply grow_next with (2 := IH _ _ run). now apply (grow_take holds g [] f q).
Qed.

Theorem run_commit_is_commit fuel e db db' : run_commit fuel e db = Some db' -> commit e db db'.
Proof.
  unfold run_commit.
  destruct (run_wave _ fuel (start_wave e db)) as [s|] eqn:w; [|discriminate].
  destruct (run_grow _ fuel _) as [g|] eqn:gr; [|discriminate].
  intros eq. injection eq as <-. apply committed with s.
  - now apply run_wave_is_wave with fuel.
  - now apply run_grow_is_grow with fuel.
Qed.

End Run.

(** ** Hypergraphs as tables *)

(** A number below [n]. *)
Definition slot (n : nat) : Type := { i : nat | (i <? n) = true }.

Definition index {n} (x : slot n) : nat := proj1_sig x.

Lemma slot_same n (x y : slot n) : index x = index y -> x = y.
Proof.
  destruct x as [i p], y as [j q]. cbn. intros <-. f_equal. apply UIP_dec, bool_dec.
Qed.

Definition slot_eq n (x y : slot n) : {x = y} + {x <> y} :=
  match Nat.eq_dec (index x) (index y) with
  | left e => left (slot_same n x y e)
  | right ne => right (fun e => ne (f_equal index e))
  end.

(** The numbers of a list that are below [n]. *)
Definition slots_of (n : nat) (l : list nat) : list (slot n) :=
  flat_map (fun i => match bool_dec (i <? n) true with
    | left p => [exist _ i p]
    | right _ => []
    end) l.

Definition slots (n : nat) : list (slot n) := slots_of n (seq 0 n).

Lemma slots_of_in n l x : In x (slots_of n l) <-> In (index x) l.
Proof.
  unfold slots_of. rewrite in_flat_map. split.
  - intros (i & il & ix). destruct (bool_dec (i <? n) true); [|easy]. now destruct ix as [<-|[]].
  - intros il. exists (index x). split; [assumption|].
    destruct (bool_dec (index x <? n) true) as [p|no].
    + left. now apply slot_same.
    + destruct x as [i p]. contradiction.
Qed.

Lemma slots_all n x : In x (slots n).
Proof.
  apply slots_of_in, in_seq. destruct x as [i p]. cbn. apply Nat.ltb_lt in p. lia.
Qed.

Lemma slots_of_once n l : NoDup l -> NoDup (slots_of n l).
Proof.
  intros once. induction once as [|i l out _ IH]; [constructor|].
  unfold slots_of. cbn [flat_map]. change (flat_map _ l) with (slots_of n l).
  destruct (bool_dec (i <? n) true) as [p|no]; [|assumption].
  cbn [app]. constructor; [|assumption]. intros here. apply slots_of_in in here. now apply out.
Qed.

(** Facts are [0 .. facts - 1]; row [i] of the table is derivation [i], its head and its body. *)
Definition tabled (facts : nat) (default : slot facts) (table : list (slot facts * list (slot facts)))
  : hypergraph := {|
  node := slot facts;
  deriv := slot (length table);
  head d := fst (nth (index d) table (default, []));
  body d := snd (nth (index d) table (default, []));
  node_eq := slot_eq facts;
  nodes := slots facts;
  nodes_all := slots_all facts;
  nodes_once := slots_of_once facts _ (seq_NoDup facts 0);
  derivs := slots (length table);
  derivs_all := slots_all (length table);
  derivs_once := slots_of_once _ _ (seq_NoDup (length table) 0) |}.

(** What a run prints: each commit's ranks, and supports, of the facts that are present. *)
Section Trace.
Variable size : nat.
Variable rows : list (nat * list nat).

Definition as_slots (l : list nat) : list (slot (S size)) := slots_of (S size) l.
Definition default : slot (S size) := exist _ 0 eq_refl.
Definition table : list (slot (S size) * list (slot (S size))) :=
  map (fun row => (hd default (as_slots [fst row]), as_slots (snd row))) rows.

#[local] Instance graph : hypergraph := tabled (S size) default table.

Definition numbers (l : list nat) : facts := fun f => existsb (Nat.eqb (index f)) l.
Definition rules (l : list nat) : derivations := fun d => existsb (Nat.eqb (index d)) l.

Definition shown (db : database) : list (nat * nat * nat) :=
  flat_map (fun f => match db_rank db f with
    | Some r => [(index f, r, db_support db f)]
    | None => []
    end) nodes.

(** A function as a table, so that a look-up does not walk through all updates since the start. *)
Definition tabulated {A} (f : node -> A) (other : A) : node -> A :=
  let l := map f nodes in fun x => nth (index x) l other.
Definition tidy (db : database) : database :=
  let holding := map (holds db) derivs in
  Database (tabulated (given db) false) (fun d => nth (index d) holding false)
    (tabulated (db_rank db) None) (tabulated (db_support db) 0).

(** The commits of [(delete, insert, drop, add)], from nothing. None: the fuel was too little. *)
Fixpoint trace (fuel : nat) (edits : list (list nat * list nat * list nat * list nat))
  (db : database) : list (option (list (nat * nat * nat))) :=
  match edits with
  | (del, ins, dro, ad) :: edits =>
      match run_commit fuel (Edit (numbers del) (numbers ins) (rules dro) (rules ad)
        (numbers []) (rules [])) (tidy db) with
      | Some db => Some (shown db) :: trace fuel edits db
      | None => [None]
      end
  | [] => []
  end.

Definition traced (fuel : nat) edits := trace fuel edits empty.

End Trace.
