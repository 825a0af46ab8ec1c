(** The wave restores the contract, in whatever order suspects are taken.

    Invariant of the wave, [inv]: supports are exact after every step; a present fact without support is
    on the heap; a derivation that stands, of a fact that was there before, has its head present, or in
    limbo with an entry on the heap no later than the derivation's height. So when the heap is empty,
    every present fact has a support, and no derivation that stands misses a head that was there.
    Main theorem: [wave_end]. That the heap gets empty is Order.v. *)

From Coq Require Import Btauto.
From Deltafix Require Export Twin.

Section Wave.
Context {H : hypergraph}.

Lemma set_same {A} k (v : A) d : set k v d k = v.
Proof. unfold set. destruct (node_eq k k); congruence. Qed.

Lemma set_other {A} k (v : A) d f : k <> f -> set k v d f = d f.
Proof. unfold set. destruct (node_eq k f); congruence. Qed.

Lemma present_set f r rank g :
  present (set f (Some r) rank) g = same f g || present rank g.
Proof. unfold present, set, same. now destruct (node_eq f g). Qed.

Lemma present_unset f rank g :
  present (set f None rank) g = negb (same f g) && present rank g.
Proof. unfold present, set, same. now destruct (node_eq f g). Qed.

Lemma rank_of_same f r rank : rank_of (set f (Some r) rank) f = r.
Proof. unfold rank_of. now rewrite set_same. Qed.

Lemma rank_of_other f v rank g : f <> g -> rank_of (set f v rank) g = rank_of rank g.
Proof. intros n. unfold rank_of. now rewrite set_other. Qed.

(** ** What [lose] does *)

Lemma lose_all_spec heads : forall s, let s' := lose_all heads s in
  rank s' = rank s /\ limbo s' = limbo s /\ moved s' = moved s /\ fallen s' = fallen s /\
  revived s' = revived s /\
  (forall f, support s' f = support s f - count_occ node_eq heads f) /\
  (forall e, In e (suspects s) -> In e (suspects s')) /\
  (forall f, In f heads -> support s' f = 0 ->
     In (Entry (rank_of (rank s) f) false f) (suspects s')) /\
  (forall e, In e (suspects s') -> In e (suspects s) \/
     (In (fact e) heads /\ waits e = false /\ at_ e = rank_of (rank s) (fact e))).
Proof.
  induction heads as [|x heads IH]; intros s; cbn zeta.
  - cbn. repeat split; auto; intros; try lia; try contradiction; try tauto.
  - change (lose_all (x :: heads) s) with (lose_all heads (lose s x)).
    specialize (IH (lose s x)). cbn zeta in IH.
    destruct IH as (r & l & m & fa & re & c & keep & zero & only).
    assert (rank (lose s x) = rank s /\ limbo (lose s x) = limbo s /\ moved (lose s x) = moved s /\
      fallen (lose s x) = fallen s /\ revived (lose s x) = revived s /\
      support (lose s x) = set x (support s x - 1) (support s)) as (r' & l' & m' & fa' & re' & c').
    { unfold lose; cbn zeta. destruct (support s x - 1 =? 0); cbn; repeat split. }
    rewrite r', l', m', fa', re' in *. repeat split; auto.
    + intros f. rewrite c, c'. cbn. unfold set. destruct (node_eq x f); [subst; lia | reflexivity].
    + intros e i. apply keep. unfold lose; cbn zeta. destruct (support s x - 1 =? 0); cbn; auto.
    + intros f [<-|i] z; [|now apply zero].
      destruct (in_dec node_eq x heads) as [i|n]; [now apply zero|].
      rewrite c, c', set_same in z.
      apply (count_occ_not_In node_eq) in n. rewrite n, Nat.sub_0_r in z.
      apply keep. unfold lose; cbn zeta. rewrite z. cbn. now left.
    + intros e i. destruct (only e i) as [j|j]; [|cbn; tauto].
      revert j. unfold lose; cbn zeta. destruct (support s x - 1 =? 0); cbn; [|tauto].
      intros [<-|j]; [right; cbn; tauto | tauto].
Qed.

(** ** What [best] finds *)

Lemma minimum_le first l : minimum first l <= first /\ forall x, In x l -> minimum first l <= x.
Proof.
  unfold minimum. induction l as [|y l [IH IH']]; cbn; [split; [lia|easy]|].
  split; [lia|]. intros x [->|i]; [lia|]. specialize (IH' x i). lia.
Qed.

Lemma minimum_in first l : In (minimum first l) (first :: l).
Proof.
  unfold minimum. induction l as [|y l IH]; cbn; [now left|].
  destruct (Nat.min_spec y (fold_right Nat.min first l)) as [[_ ->]|[_ ->]]; [now right; left|].
  destruct IH as [e|i]; [now left|now right; right].
Qed.

Lemma best_none holds rank f : best holds rank f = None ->
  forall d, candidate holds rank f d = false.
Proof.
  unfold best. destruct (filter (candidate holds rank f) derivs) as [|x t] eqn:e; [|discriminate].
  intros _ d. destruct (candidate holds rank f d) eqn:c; [|reflexivity].
  assert (In d []) as []. rewrite <- e. apply filter_In. split; [apply derivs_all | assumption].
Qed.

Lemma best_some holds rank f h c : best holds rank f = Some (h, c) ->
  (forall d, candidate holds rank f d = true -> h <= height rank (body d)) /\
  (exists d, candidate holds rank f d = true /\ height rank (body d) = h) /\
  c = count (fun d => candidate holds rank f d && (height rank (body d) =? h)) derivs.
Proof.
  unfold best. set (l := filter (candidate holds rank f) derivs).
  destruct (map _ l) as [|h0 t] eqn:e; [discriminate|]. intros eq.
  assert (minimum h0 t = h /\ count_occ Nat.eq_dec (h0 :: t) (minimum h0 t) = c) as [eh ec]
    by (split; congruence).
  assert (forall x, In x (h0 :: t) -> h <= x) as low.
  { subst h. destruct (minimum_le h0 t) as [a b]. intros x [<-|i]; auto. }
  pose proof (minimum_in h0 t) as here. rewrite eh in here, ec. rewrite <- e in here, low, ec.
  split; [|split].
  - intros d cd. apply low. apply (in_map (fun d => height rank (body d))).
    apply filter_In. split; [apply derivs_all | assumption].
  - apply in_map_iff in here. destruct here as (d & hd & i). exists d.
    apply filter_In in i. tauto.
  - rewrite <- ec. subst l. clear. unfold count.
    induction derivs as [|d ds IH]; [reflexivity|]. cbn [filter].
    destruct (candidate holds rank f d); cbn [map count_occ andb]; [|assumption].
    destruct (Nat.eq_dec (height rank (body d)) h) as [->|n].
    + rewrite Nat.eqb_refl. cbn [length]. now rewrite IH.
    + apply Nat.eqb_neq in n. now rewrite n.
Qed.

Lemma candidate_spec holds rank f d : candidate holds rank f d = true <->
  holds d = true /\ head d = f /\ stands rank d = true /\ ~ In f (body d).
Proof.
  unfold candidate. rewrite !andb_true_iff, same_spec, negb_true_iff, member_not. tauto.
Qed.

Lemma uses_spec holds rank f d : In d (uses holds rank f) <->
  holds d = true /\ In f (body d) /\ stands rank d = true.
Proof.
  unfold uses. rewrite filter_In, !andb_true_iff, member_spec.
  pose proof (derivs_all d). tauto.
Qed.

Lemma count_uses (p : deriv -> bool) holds rank f x :
  count_occ node_eq (map head (filter p (uses holds rank f))) x =
  count (fun d => p d && (holds d && member f (body d) && stands rank d) && same (head d) x) derivs.
Proof.
  rewrite count_heads. unfold count, uses. f_equal.
  induction derivs as [|d ds IH]; [reflexivity|]. cbn.
  destruct (holds d && member f (body d) && stands rank d) eqn:u; cbn.
  - rewrite andb_true_r. destruct (p d && same (head d) x); [f_equal|]; assumption.
  - rewrite andb_false_r. cbn. assumption.
Qed.

(** ** How heights and supports follow a change of one rank *)

Lemma stands_set rank f r d : present rank f = true ->
  stands (set f (Some r) rank) d = stands rank d.
Proof.
  intros p. apply eq_true_iff_eq. rewrite !stands_spec. split; intros a g i; specialize (a g i).
  - rewrite present_set in a. destruct (same f g) eqn:e; [|exact a].
    apply same_spec in e. now subst.
  - rewrite present_set, a. apply orb_true_r.
Qed.

Lemma stands_set_out rank f r d : ~ In f (body d) ->
  stands (set f (Some r) rank) d = stands rank d.
Proof.
  intros n. apply eq_true_iff_eq. rewrite !stands_spec.
  split; intros a g i; specialize (a g i); rewrite present_set in *;
  rewrite (same_not f g) in * by congruence; exact a.
Qed.

Lemma stands_unset rank f d : stands (set f None rank) d = true <->
  stands rank d = true /\ ~ In f (body d).
Proof.
  rewrite !stands_spec. split.
  - intros a. split.
    + intros g i. specialize (a g i). rewrite present_unset in a. apply andb_true_iff in a. tauto.
    + intros i. specialize (a f i). rewrite present_unset, same_refl in a. discriminate.
  - intros [a n] g i. rewrite present_unset, same_not by congruence. cbn. auto.
Qed.

Lemma stands_absent rank d f : stands rank d = true -> present rank f = false -> ~ In f (body d).
Proof. rewrite stands_spec. intros a p i. specialize (a f i). congruence. Qed.

Lemma height_out rank f v b : ~ In f b -> height (set f v rank) b = height rank b.
Proof. intros n. apply height_same. intros g i. apply rank_of_other. congruence. Qed.

Lemma height_in rank f r b : In f b -> r <= height (set f (Some r) rank) b.
Proof.
  intros i. rewrite <- (rank_of_same f r rank) at 1. now apply height_ge.
Qed.

Lemma height_raised rank f r b m : rank_of rank f <= r -> In f b ->
  (height (set f (Some r) rank) b < m <-> height rank b < m /\ r < m).
Proof.
  intros le i. rewrite !height_lt. split.
  - intros [z all]. repeat split; auto.
    + intros g j. specialize (all g j). destruct (node_eq f g) as [<-|n].
      * rewrite rank_of_same in all. lia.
      * now rewrite rank_of_other in all.
    + specialize (all f i). now rewrite rank_of_same in all.
  - intros [[z all] rm]. split; [assumption|]. intros g j. destruct (node_eq f g) as [<-|n].
    + now rewrite rank_of_same.
    + rewrite rank_of_other; auto.
Qed.

Lemma height_raised_le rank f r b : rank_of rank f <= r ->
  height rank b <= height (set f (Some r) rank) b.
Proof.
  intros le. apply height_mono. intros g i. destruct (node_eq f g) as [<-|n].
  - now rewrite rank_of_same.
  - now rewrite rank_of_other.
Qed.

(** Splitting the supports of a fact into those that stay and those that go. *)
Lemma supporting_split holds rank rank' (lost : deriv -> bool) x :
  (forall d, holds d = true -> head d = x ->
     Nat.b2n (supports rank d) = Nat.b2n (supports rank' d) + Nat.b2n (lost d)) ->
  supporting holds rank x =
  supporting holds rank' x + count (fun d => holds d && same (head d) x && lost d) derivs.
Proof.
  intros e. apply count_split. intros d _.
  destruct (holds d) eqn:hd; [|reflexivity]. destruct (same (head d) x) eqn:hx; [|reflexivity].
  apply same_spec in hx. cbn. now apply e.
Qed.

Lemma b2n_split (p q r : bool) :
  (q = true -> r = true -> False) -> (p = true <-> q = true \/ r = true) ->
  Nat.b2n p = Nat.b2n q + Nat.b2n r.
Proof. destruct p, q, r; cbn; intuition congruence. Qed.

(** ** The invariant *)

Section Invariant.
Variable given : facts.
Variable holds : derivations.
Variable before : facts.  (* the facts present when the wave began *)

Record inv (s : state) : Prop := {
  exact : forall f, present (rank s) f = true ->
    support s f = Nat.b2n (given f) + supporting holds (rank s) f;
  queued : forall f, present (rank s) f = true -> support s f = 0 ->
    In (Entry (rank_of (rank s) f) false f) (suspects s);
  base : forall f, given f = true -> present (rank s) f = true;
  kept : forall f, before f = true <-> present (rank s) f = true \/ limbo s f <> None;
  apart : forall f, limbo s f <> None -> present (rank s) f = false;
  missing : forall d, holds d = true -> before (head d) = true -> stands (rank s) d = true ->
    present (rank s) (head d) = true \/
    exists m, limbo s (head d) = Some (Some m) /\ m <= height (rank s) (body d);
  waiting : forall f m, limbo s f = Some (Some m) -> In (Entry m true f) (suspects s) }.

(** A fact without support has only derivations that do not rank below it, and is not given. *)
Lemma unsupported s f : inv s -> present (rank s) f = true -> support s f = 0 ->
  given f = false /\
  forall d, holds d = true -> head d = f -> stands (rank s) d = true ->
    rank_of (rank s) f <= height (rank s) (body d).
Proof.
  intros I p z. rewrite (exact s I f p) in z.
  destruct (given f); cbn in z; [lia|]. split; [reflexivity|].
  rewrite supporting_zero in z. intros d hd hf st. specialize (z d hd hf).
  destruct (le_lt_dec (rank_of (rank s) f) (height (rank s) (body d))) as [|lt]; [assumption|].
  subst f. assert (supports (rank s) d = true) by (apply supports_spec; auto). congruence.
Qed.

(** What is popped is in no one's way, once its fact has been seen to. *)
Lemma popped s e l l' x : suspects s = l ++ e :: l' -> In x (suspects s) ->
  x = e \/ In x (l ++ l').
Proof.
  intros ->. rewrite !in_app_iff. cbn. intuition congruence.
Qed.

(** [inv] but for what the popped entry was to remind of: the fact [f] as a suspect ([late] false) or
    as one in limbo ([late] true). *)
Record inv_but (late : bool) (f : node) (s : state) : Prop := {
  b_exact : forall g, present (rank s) g = true ->
    support s g = Nat.b2n (given g) + supporting holds (rank s) g;
  b_queued : forall g, (late = false -> g <> f) -> present (rank s) g = true -> support s g = 0 ->
    In (Entry (rank_of (rank s) g) false g) (suspects s);
  b_base : forall g, given g = true -> present (rank s) g = true;
  b_kept : forall g, before g = true <-> present (rank s) g = true \/ limbo s g <> None;
  b_apart : forall g, limbo s g <> None -> present (rank s) g = false;
  b_missing : forall d, holds d = true -> before (head d) = true -> stands (rank s) d = true ->
    present (rank s) (head d) = true \/
    exists m, limbo s (head d) = Some (Some m) /\ m <= height (rank s) (body d);
  b_waiting : forall g m, (late = true -> g <> f) -> limbo s g = Some (Some m) ->
    In (Entry m true g) (suspects s) }.

Lemma inv_weaken late f s : inv s -> inv_but late f s.
Proof. intros []. constructor; auto. Qed.

Lemma inv_pop s e l l' : inv s -> suspects s = l ++ e :: l' ->
  inv_but (waits e) (fact e) (with_suspects (l ++ l') s).
Proof.
  intros I eq. destruct I. constructor; cbn; auto.
  - intros g n p z. specialize (queued0 g p z).
    destruct (popped s e l l' _ eq queued0) as [x|]; [|assumption].
    subst e. cbn in n. destruct (n eq_refl eq_refl).
  - intros g m n lg. specialize (waiting0 g m lg).
    destruct (popped s e l l' _ eq waiting0) as [x|]; [|assumption].
    subst e. cbn in n. destruct (n eq_refl eq_refl).
Qed.

Lemma inv_stale s e l l' : inv s -> suspects s = l ++ e :: l' ->
  (if waits e then limbo_is s (fact e) (at_ e) = false
   else rank_is s (fact e) (at_ e) && (support s (fact e) =? 0) = false) ->
  inv (with_suspects (l ++ l') s).
Proof.
  intros I eq stale. pose proof I as J. destruct J. constructor; cbn; auto.
  - intros g p z. specialize (queued0 g p z).
    destruct (popped s e l l' _ eq queued0) as [x|]; [|assumption]. subst e. cbn in stale.
    apply present_some in p. unfold rank_is in stale. rewrite p, Nat.eqb_refl, z in stale.
    discriminate.
  - intros g m lg. specialize (waiting0 g m lg).
    destruct (popped s e l l' _ eq waiting0) as [x|]; [|assumption]. subst e. cbn in stale.
    unfold limbo_is in stale. rewrite lg, Nat.eqb_refl in stale. discriminate.
Qed.

(** ** [wait] *)

(** [wait] puts an absent fact in limbo and on the heap: nothing is left to remind of. *)
Lemma wait_inv f s :
  (forall g, present (rank s) g = true ->
     support s g = Nat.b2n (given g) + supporting holds (rank s) g) ->
  (forall g, present (rank s) g = true -> support s g = 0 ->
     In (Entry (rank_of (rank s) g) false g) (suspects s)) ->
  (forall g, given g = true -> present (rank s) g = true) ->
  (forall g, before g = true <-> present (rank s) g = true \/ g = f \/ limbo s g <> None) ->
  (forall g, g = f \/ limbo s g <> None -> present (rank s) g = false) ->
  (forall d, holds d = true -> before (head d) = true -> stands (rank s) d = true -> head d <> f ->
     present (rank s) (head d) = true \/
     exists m, limbo s (head d) = Some (Some m) /\ m <= height (rank s) (body d)) ->
  (forall g m, g <> f -> limbo s g = Some (Some m) -> In (Entry m true g) (suspects s)) ->
  inv (wait holds f s).
Proof.
  intros ex qu ba ke ap mi wa.
  assert (present (rank s) f = false) as absent by (apply ap; now left).
  assert (forall d, holds d = true -> stands (rank s) d = true -> head d = f ->
    candidate holds (rank s) f d = true) as cand.
  { intros d hd st hf. apply candidate_spec. repeat split; auto. now apply (stands_absent (rank s)). }
  unfold wait. destruct (best holds (rank s) f) as [[h c]|] eqn:b.
  - apply best_some in b. destruct b as (low & _ & _). constructor; cbn; auto.
    + intros g. rewrite ke. unfold set. destruct (node_eq f g) as [<-|n]; intuition congruence.
    + intros g. unfold set. destruct (node_eq f g) as [<-|n]; auto.
    + intros d hd bh st. destruct (node_eq f (head d)) as [e|n].
      * right. exists h. rewrite e at 1. rewrite set_same. split; auto.
      * rewrite set_other by assumption. apply mi; auto.
    + intros g m. unfold set. destruct (node_eq f g) as [<-|n]; [|auto].
      intros e. injection e as ->. now left.
  - pose proof (best_none _ _ _ b) as none. constructor; cbn; auto.
    + intros g. rewrite ke. unfold set. destruct (node_eq f g) as [<-|n]; intuition congruence.
    + intros g. unfold set. destruct (node_eq f g) as [<-|n]; auto.
    + intros d hd bh st. destruct (node_eq f (head d)) as [e|n].
      * specialize (none d). rewrite cand in none; auto. discriminate.
      * rewrite set_other by assumption. apply mi; auto.
    + intros g m. unfold set. destruct (node_eq f g) as [<-|n]; [discriminate|auto].
Qed.

(** ** [move] *)

Lemma move_inv f h c s : inv_but false f s -> present (rank s) f = true -> support s f = 0 ->
  best holds (rank s) f = Some (h, c) ->
  inv (move holds f (h, c) s) /\ rank_of (rank s) f <= h.
Proof.
  intros I p z b. apply best_some in b. destruct b as (low & (d0 & cd0 & hd0) & ec).
  assert (given f = false /\ supporting holds (rank s) f = 0) as (gf & none).
  { rewrite (b_exact _ _ _ I f p) in z. destruct (given f); cbn in z; split; lia || easy. }
  assert (rank_of (rank s) f <= h) as up.
  { rewrite supporting_zero in none. rewrite <- hd0.
    apply candidate_spec in cd0. destruct cd0 as (hd & hf & st & _).
    specialize (none d0 hd hf). apply Nat.nlt_ge. intros lt.
    assert (supports (rank s) d0 = true); [|congruence].
    apply supports_spec. rewrite hf. auto. }
  split; [|exact up]. unfold move; cbn zeta.
  set (lost := filter _ (uses holds (rank s) f)).
  pose proof (lose_all_spec (map head lost) s) as L. cbn zeta in L.
  set (s' := lose_all (map head lost) s) in *.
  destruct L as (er & el & _ & _ & _ & ecount & keep & zero & _).
  assert (forall g, f <> g -> In g (map head lost) -> present (rank s) g = true) as losers.
  { intros g n i. apply in_map_iff in i. destruct i as (d & <- & i). subst lost.
    apply filter_In in i. destruct i as [_ i]. rewrite !andb_true_iff in i. tauto. }
  constructor; cbn; rewrite ?er, ?el.
  - (* exact *)
    intros g pg. destruct (node_eq f g) as [<-|n].
    + rewrite set_same, gf. cbn. rewrite ec. unfold supporting. apply count_ext. intros d _.
      apply eq_true_iff_eq.
      rewrite !andb_true_iff, candidate_spec, Nat.eqb_eq, same_spec, supports_spec. split.
      * intros [(hd & hf & st & ni) hh]. rewrite hf, stands_set, rank_of_same, height_out by auto.
        repeat split; auto. lia.
      * intros [[hd hf] (_ & st & lt)]. rewrite hf, rank_of_same in lt.
        assert (~ In f (body d)) as ni.
        { intros i. pose proof (height_in (rank s) f (h + 1) (body d) i). lia. }
        rewrite stands_set in st by assumption. rewrite height_out in lt by assumption.
        repeat split; auto. assert (h <= height (rank s) (body d)); [|lia].
        apply low, candidate_spec. auto.
    + rewrite present_set, same_not in pg by assumption. cbn in pg.
      rewrite set_other, ecount, (b_exact _ _ _ I g pg) by assumption.
      rewrite (supporting_split holds (rank s) (set f (Some (h + 1)) (rank s))
        (fun d => member f (body d) && stands (rank s) d
           && ((height (rank s) (body d) <? rank_of (rank s) (head d))
           && (rank_of (rank s) (head d) <=? h + 1))) g).
      * subst lost. rewrite count_uses.
        match goal with |- _ + (_ + ?a) - ?b = _ => enough (b = a) by lia end.
        apply count_ext. intros d _.
        destruct (same (head d) g) eqn:hg; [|now rewrite !andb_false_r].
        apply same_spec in hg. rewrite hg, pg. btauto.
      * intros d hd hg. apply b2n_split.
        -- rewrite supports_spec, !andb_true_iff, member_spec, Nat.leb_le.
           intros (_ & _ & lt) ((i & _) & _ & le). rewrite hg in *.
           rewrite rank_of_other in lt by assumption.
           pose proof (height_in (rank s) f (h + 1) (body d) i). lia.
        -- rewrite !supports_spec, !andb_true_iff, member_spec, Nat.leb_le, Nat.ltb_lt, hg.
           rewrite present_set, same_not, stands_set, rank_of_other by assumption. cbn.
           destruct (in_dec node_eq f (body d)) as [i|ni].
           ++ rewrite height_raised by (assumption || lia).
              destruct (le_lt_dec (rank_of (rank s) g) (h + 1)); intuition lia.
           ++ rewrite height_out by assumption. tauto.
  - (* queued *)
    intros g pg zg. destruct (node_eq f g) as [<-|n].
    + rewrite set_same in zg. exfalso. enough (1 <= c) by lia. rewrite ec. apply count_some.
      exists d0. split; [apply derivs_all|]. now rewrite cd0, hd0, Nat.eqb_refl.
    + rewrite set_other in zg by assumption. rewrite rank_of_other by assumption.
      rewrite present_set, same_not in pg by assumption. cbn in pg.
      destruct (in_dec node_eq g (map head lost)) as [i|ni]; [now apply zero|].
      apply keep, (b_queued _ _ _ I); auto.
      rewrite ecount in zg. apply (count_occ_not_In node_eq) in ni. lia.
  - intros g gg. rewrite present_set, (b_base _ _ _ I g gg). apply orb_true_r.
  - intros g. rewrite (b_kept _ _ _ I g), present_set, orb_true_iff, same_spec.
    intuition (subst; auto).
  - intros g lg. rewrite present_set, (b_apart _ _ _ I g lg), orb_false_r.
    apply same_not. intros ->. rewrite (b_apart _ _ _ I g lg) in p. discriminate.
  - intros d hd bh st. rewrite stands_set in st by assumption.
    destruct (b_missing _ _ _ I d hd bh st) as [ph|(m & lm & le)].
    + left. rewrite present_set, ph. apply orb_true_r.
    + right. exists m. split; [assumption|].
      etransitivity; [exact le|]. apply height_raised_le. lia.
  - intros g m lg. apply keep, (b_waiting _ _ _ I); [discriminate|assumption].
Qed.

(** ** [overdelete] *)

Lemma overdelete_inv f s : inv_but false f s -> present (rank s) f = true -> support s f = 0 ->
  inv (overdelete holds f s).
Proof.
  intros I p z. unfold overdelete; cbn zeta.
  assert (given f = false) as gf.
  { rewrite (b_exact _ _ _ I f p) in z. destruct (given f); cbn in z; lia || easy. }
  set (lost := filter _ (uses holds (rank s) f)).
  pose proof (lose_all_spec (map head lost) s) as L. cbn zeta in L.
  set (s' := lose_all (map head lost) s) in *.
  destruct L as (er & el & _ & _ & _ & ecount & keep & zero & _).
  apply wait_inv; cbn; rewrite ?er, ?el.
  - intros g pg. rewrite present_unset in pg. apply andb_true_iff in pg. destruct pg as [n pg].
    assert (f <> g) as ng by (intros ->; rewrite same_refl in n; discriminate).
    rewrite set_other, ecount, (b_exact _ _ _ I g pg) by assumption.
    rewrite (supporting_split holds (rank s) (set f None (rank s))
      (fun d => member f (body d) && stands (rank s) d
         && (height (rank s) (body d) <? rank_of (rank s) (head d))) g).
    + subst lost. rewrite count_uses.
      match goal with |- _ + (_ + ?a) - ?b = _ => enough (b = a) by lia end.
      apply count_ext. intros d _.
      destruct (same (head d) g) eqn:hg; [|now rewrite !andb_false_r].
      apply same_spec in hg. rewrite hg, pg. btauto.
    + intros d hd hg. apply b2n_split.
      * rewrite supports_spec, !andb_true_iff, member_spec, stands_unset. tauto.
      * rewrite !supports_spec, !andb_true_iff, member_spec, Nat.ltb_lt, stands_unset, hg.
        rewrite present_unset, same_not, rank_of_other by assumption. cbn.
        destruct (in_dec node_eq f (body d)) as [i|ni]; [tauto|].
        rewrite height_out by assumption. tauto.
  - intros g pg zg. rewrite present_unset in pg. apply andb_true_iff in pg. destruct pg as [n pg].
    assert (f <> g) as ng by (intros ->; rewrite same_refl in n; discriminate).
    rewrite set_other in zg by assumption. rewrite rank_of_other by assumption.
    destruct (in_dec node_eq g (map head lost)) as [i|ni]; [now apply zero|].
    apply keep, (b_queued _ _ _ I); auto.
    rewrite ecount in zg. apply (count_occ_not_In node_eq) in ni. lia.
  - intros g gg. rewrite present_unset, (b_base _ _ _ I g gg), same_not; [reflexivity|congruence].
  - intros g. rewrite (b_kept _ _ _ I g), present_unset, andb_true_iff, negb_true_iff.
    destruct (node_eq f g) as [<-|n].
    + intuition.
    + rewrite same_not by assumption. intuition congruence.
  - intros g [->|lg]; rewrite present_unset; [now rewrite same_refl|].
    rewrite (b_apart _ _ _ I g lg). apply andb_false_r.
  - intros d hd bh st n. apply stands_unset in st. destruct st as [st ni].
    rewrite height_out by assumption. rewrite present_unset, same_not by congruence. cbn.
    now apply (b_missing _ _ _ I).
  - intros g m n lg. apply keep, (b_waiting _ _ _ I); [discriminate|assumption].
Qed.

(** ** [rederive] *)

Definition gains (rank : ranks) (d : deriv) : bool :=
  present rank (head d) && (height rank (body d) <? rank_of rank (head d)).

Lemma offer_spec l : forall s, let s' := fold_left offer l s in
  rank s' = rank s /\ moved s' = moved s /\ fallen s' = fallen s /\ revived s' = revived s /\
  (forall f, support s' f = support s f + count_occ node_eq (map head (filter (gains (rank s)) l)) f) /\
  (forall e, In e (suspects s) -> In e (suspects s')) /\
  (forall f, limbo s f = None <-> limbo s' f = None) /\
  (forall f m, limbo s f = Some (Some m) -> exists m', limbo s' f = Some (Some m') /\ m' <= m) /\
  (forall d, In d l -> present (rank s) (head d) = false -> limbo s (head d) <> None ->
     exists m, limbo s' (head d) = Some (Some m) /\ m <= height (rank s) (body d)) /\
  (forall f m, limbo s' f = Some (Some m) ->
     limbo s f = Some (Some m) \/ In (Entry m true f) (suspects s')) /\
  (forall e, In e (suspects s') -> In e (suspects s) \/
     exists d, In d l /\ waits e = true /\ at_ e = height (rank s) (body d)).
Proof.
  induction l as [|x l IH]; intros s; cbn zeta.
  - cbn. repeat split; auto; intros; try lia; try contradiction. eauto.
  - change (fold_left offer (x :: l) s) with (fold_left offer l (offer s x)).
    specialize (IH (offer s x)). cbn zeta in IH.
    destruct IH as (er & em & ef & ev & es & keep & ln & le & lo & wa & only).
    assert (rank (offer s x) = rank s /\ moved (offer s x) = moved s /\
      fallen (offer s x) = fallen s /\ revived (offer s x) = revived s) as (er' & em' & ef' & ev').
    { unfold offer; cbn zeta. destruct (present _ _ && _); cbn; auto.
      destruct (limbo s (head x)) as [m|]; auto. destruct (sooner _ _); cbn; auto. }
    rewrite er', em', ef', ev' in *.
    assert (forall f, limbo s f = None <-> limbo (offer s x) f = None) as ln'.
    { intros f. unfold offer; cbn zeta. destruct (present _ _ && _); cbn; [tauto|].
      destruct (limbo s (head x)) as [m|] eqn:e; [|tauto]. destruct (sooner _ _); cbn; [|tauto].
      unfold set. destruct (node_eq (head x) f); [subst; split; congruence | tauto]. }
    assert (forall f m, limbo s f = Some (Some m) ->
      exists m', limbo (offer s x) f = Some (Some m') /\ m' <= m) as le'.
    { intros f m lf. unfold offer; cbn zeta. destruct (present _ _ && _); cbn; [eauto|].
      destruct (limbo s (head x)) as [o|] eqn:e; [|eauto].
      destruct (sooner _ o) eqn:so; cbn; [|eauto].
      unfold set. destruct (node_eq (head x) f) as [<-|n]; [|eauto].
      rewrite e in lf. injection lf as ->. cbn in so. apply Nat.ltb_lt in so.
      eexists. split; [reflexivity|lia]. }
    repeat split; auto.
    + intros f. rewrite es. cbn. unfold gains at 2.
      unfold offer; cbn zeta. destruct (present _ (head x) && _); cbn.
      * unfold set. destruct (node_eq (head x) f); [subst; lia | reflexivity].
      * destruct (limbo s (head x)) as [o|]; auto. destruct (sooner _ o); auto.
    + intros e i. apply keep. unfold offer; cbn zeta. destruct (present _ _ && _); cbn; auto.
      destruct (limbo s (head x)) as [o|]; auto. destruct (sooner _ o); cbn; auto.
    + intros n. apply ln, ln', n.
    + intros n. apply ln', ln, n.
    + intros f m lf. destruct (le' f m lf) as (m1 & l1 & b1). destruct (le f m1 l1) as (m2 & l2 & b2).
      exists m2. split; [assumption|lia].
    + intros d [->|i] ab lim; [|apply lo; auto; rewrite <- ln'; assumption].
      assert (exists m, limbo (offer s d) (head d) = Some (Some m) /\
        m <= height (rank s) (body d)) as (m & l1 & b1).
      { unfold offer; cbn zeta. rewrite ab. cbn.
        destruct (limbo s (head d)) as [o|] eqn:e; [|congruence].
        destruct (sooner _ o) eqn:so; cbn.
        - rewrite set_same. eauto.
        - destruct o as [n|]; cbn in so; [|discriminate]. apply Nat.ltb_ge in so. eauto. }
      destruct (le (head d) m l1) as (m2 & l2 & b2). exists m2. split; [assumption|lia].
    + intros f m lf. destruct (wa f m lf) as [l1|]; [|now right].
      revert l1 keep. unfold offer; cbn zeta. destruct (present _ _ && _); cbn; [auto|].
      destruct (limbo s (head x)) as [o|] eqn:e; [|auto]. destruct (sooner _ o); cbn; [|auto].
      unfold set at 1. destruct (node_eq (head x) f) as [<-|n]; [|auto].
      intros e1 keep. injection e1 as <-. right. apply keep. now left.
    + intros e i. destruct (only e i) as [j|(d & j & k)]; [|right; exists d; cbn; tauto].
      revert j. unfold offer; cbn zeta. destruct (present _ _ && _); cbn; [auto|].
      destruct (limbo s (head x)) as [o|] eqn:eo; [|auto]. destruct (sooner _ o); cbn; [|auto].
      intros [<-|j]; [|auto]. right. exists x. cbn. auto.
Qed.

Lemma rederive_inv f n s : inv_but true f s -> limbo s f = Some (Some n) ->
  inv (rederive holds f n s).
Proof.
  intros I lf.
  assert (present (rank s) f = false) as absent by (apply (b_apart _ _ _ I); congruence).
  assert (inv (wait holds f s)) as waits.
  { destruct I. apply wait_inv; auto.
    - intros g p z. apply b_queued0; auto. discriminate.
    - intros g. rewrite b_kept0. intuition (subst; auto). right. congruence.
    - intros g [->|l]; auto. }
  unfold rederive. destruct (best holds (rank s) f) as [[h c]|] eqn:b; [|assumption].
  destruct (n <? h); [assumption|]. cbn zeta. clear waits.
  apply best_some in b. destruct b as (low & (d0 & cd0 & hd0) & ec).
  set (s1 := State _ _ _ _ _ _ _).
  set (l := uses holds (rank s1) f).
  pose proof (offer_spec l s1) as L. cbn zeta in L. set (s' := fold_left offer l s1) in *.
  destruct L as (er & _ & _ & _ & es & keep & ln & le & lo & wa & _).
  assert (rank s1 = set f (Some (h + 1)) (rank s)) as r1 by reflexivity.
  assert (forall g, limbo s g = None -> limbo s' g = None) as gone.
  { intros g e. apply ln. subst s1. cbn. unfold set. destruct (node_eq f g); auto. }
  assert (limbo s' f = None) as out by (apply ln; subst s1; cbn; apply set_same).
  assert (given f = false) as gf.
  { destruct (given f) eqn:g; [|reflexivity]. apply (b_base _ _ _ I) in g. congruence. }
  assert (forall d, holds d = true -> In f (body d) -> stands (rank s1) d = true -> In d l) as inl.
  { intros d hd i st. apply uses_spec. auto. }
  constructor; rewrite ?er, ?r1.
  - (* exact *)
    intros g pg. rewrite es. unfold l. rewrite count_uses, r1.
    destruct (node_eq f g) as [<-|ng].
    + replace (support s1 f) with c by (symmetry; apply set_same). rewrite gf. cbn [Nat.b2n plus].
      rewrite ec. unfold supporting. symmetry. apply count_split. intros d _.
      apply b2n_split.
      * rewrite !andb_true_iff, candidate_spec, member_spec. tauto.
      * rewrite !andb_true_iff, candidate_spec, Nat.eqb_eq, same_spec, supports_spec. split.
        -- intros [[hd hf] (_ & st & lt)]. left. rewrite hf, rank_of_same in lt.
           assert (~ In f (body d)) as ni.
           { intros i. pose proof (height_in (rank s) f (h + 1) (body d) i). lia. }
           rewrite stands_set_out in st by assumption. rewrite height_out in lt by assumption.
           repeat split; auto. assert (h <= height (rank s) (body d)); [|lia].
           apply low, candidate_spec. auto.
        -- unfold gains. rewrite member_spec, andb_true_iff, Nat.ltb_lt.
           intros [[(hd & hf & st & ni) hh]|[[[_ lt] [[_ i] _]] hf]].
           ++ rewrite hf, stands_set_out, rank_of_same, height_out, present_set, same_refl by auto.
              repeat split; auto. lia.
           ++ rewrite hf, rank_of_same in lt.
              pose proof (height_in (rank s) f (h + 1) (body d) i). lia.
    + rewrite present_set, same_not in pg by assumption. cbn in pg.
      replace (support s1 g) with (support s g) by (symmetry; apply set_other; assumption).
      rewrite (b_exact _ _ _ I g pg). rewrite <- Nat.add_assoc. f_equal. symmetry.
      unfold supporting. apply count_split. intros d _. apply b2n_split.
      * rewrite !andb_true_iff, !supports_spec, member_spec, same_spec.
        intros [_ (_ & st & _)] [[_ [[_ i] _]] _].
        exact (stands_absent (rank s) d f st absent i).
      * unfold gains. rewrite !andb_true_iff, !supports_spec, member_spec, same_spec, Nat.ltb_lt.
        split.
        -- intros [[hd hg] (ph & st & lt)]. destruct (in_dec node_eq f (body d)) as [i|ni].
           ++ right. tauto.
           ++ left. rewrite hg in *. rewrite rank_of_other, height_out in lt by assumption.
              rewrite stands_set_out in st by assumption. tauto.
        -- intros [[[hd hg] (ph & st & lt)]|T]; [|tauto].
           assert (~ In f (body d)) as ni by (now apply (stands_absent (rank s))).
           rewrite hg in *. rewrite rank_of_other, height_out, stands_set_out, present_set, ph
             by assumption. rewrite orb_true_r. tauto.
  - (* queued *)
    intros g pg zg. rewrite es in zg. apply keep. cbn.
    destruct (node_eq f g) as [<-|ng].
    + replace (support s1 f) with c in zg by (symmetry; apply set_same).
      exfalso. enough (1 <= c) by lia. rewrite ec. apply count_some.
      exists d0. split; [apply derivs_all|]. now rewrite cd0, hd0, Nat.eqb_refl.
    + replace (support s1 g) with (support s g) in zg by (symmetry; apply set_other; assumption).
      rewrite present_set, same_not in pg by assumption. cbn in pg.
      rewrite rank_of_other by assumption. apply (b_queued _ _ _ I); [discriminate|auto|lia].
  - intros g gg. rewrite present_set, (b_base _ _ _ I g gg). apply orb_true_r.
  - intros g. rewrite (b_kept _ _ _ I g), present_set, orb_true_iff, same_spec.
    rewrite <- (not_iff_compat (ln g)). cbn. unfold set. destruct (node_eq f g) as [<-|ng].
    + split; [tauto|]. intros _. right. congruence.
    + intuition.
  - intros g lg. rewrite <- (not_iff_compat (ln g)) in lg. cbn in lg. unfold set in lg.
    destruct (node_eq f g) as [<-|ng]; [congruence|].
    rewrite present_set, same_not by assumption. cbn. now apply (b_apart _ _ _ I).
  - (* missing *)
    intros d hd bh st. destruct (present (set f (Some (h + 1)) (rank s)) (head d)) eqn:ph; [now left|].
    right. assert (f <> head d) as nh.
    { intros e. rewrite present_set, e, same_refl in ph. discriminate. }
    rewrite present_set, same_not in ph by assumption. cbn in ph.
    destruct (in_dec node_eq f (body d)) as [i|ni].
    + rewrite <- r1. apply lo; auto.
      * rewrite r1, present_set, same_not; assumption.
      * cbn. rewrite set_other by assumption.
        apply (b_kept _ _ _ I) in bh. destruct bh; [congruence|assumption].
    + rewrite stands_set_out in st by assumption. rewrite height_out by assumption.
      destruct (b_missing _ _ _ I d hd bh st) as [p|(m & lm & bm)]; [congruence|].
      assert (limbo s1 (head d) = Some (Some m)) as l1 by (cbn; now rewrite set_other).
      destruct (le _ _ l1) as (m' & l2 & b2). exists m'. split; [assumption|lia].
  - (* waiting *)
    intros g m lg. destruct (wa g m lg) as [l1|]; [|assumption]. cbn in l1. unfold set in l1.
    destruct (node_eq f g) as [<-|ng]; [discriminate|].
    apply keep. cbn. apply (b_waiting _ _ _ I); auto.
Qed.

(** ** Every step keeps the invariant *)

Lemma take_inv s e l l' : inv s -> suspects s = l ++ e :: l' ->
  inv (take holds e (with_suspects (l ++ l') s)).
Proof.
  intros I eq. pose proof (inv_pop s e l l' I eq) as P.
  pose proof (inv_stale s e l l' I eq) as S.
  set (t := with_suspects (l ++ l') s) in *. unfold take.
  change (limbo_is s) with (limbo_is t) in S. change (rank_is s) with (rank_is t) in S.
  change (support s) with (support t) in S.
  destruct (waits e).
  - destruct (limbo_is t (fact e) (at_ e)) eqn:lim; [|now apply S].
    apply rederive_inv; [assumption|]. unfold limbo_is in lim.
    destruct (limbo t (fact e)) as [[m|]|]; try discriminate. apply Nat.eqb_eq in lim. congruence.
  - destruct (rank_is t (fact e) (at_ e) && (support t (fact e) =? 0)) eqn:due; [|now apply S].
    apply andb_true_iff in due. destruct due as [r z]. apply Nat.eqb_eq in z.
    assert (present (rank t) (fact e) = true) as p.
    { unfold rank_is in r. unfold present. destruct (rank t (fact e)); congruence. }
    destruct (member (fact e) (moved t)); [now apply overdelete_inv|].
    destruct (best holds (rank t) (fact e)) as [[h c]|] eqn:b; [|now apply overdelete_inv].
    now apply move_inv.
Qed.

Theorem any_step_inv s s' : inv s -> any_step holds s s' -> inv s'.
Proof. intros I [l e l' eq]. now apply take_inv. Qed.

Lemma wave_step_any s s' : wave_step holds s s' -> any_step holds s s'.
Proof. intros [l e l' eq _]. now constructor. Qed.

Theorem wave_inv s s' : inv s -> wave holds s s' -> inv s' /\ suspects s' = [].
Proof.
  intros I W. induction W as [s over|s s1 s2 st _ IH]; [auto|].
  apply IH. eapply any_step_inv; [exact I|]. now apply wave_step_any.
Qed.

(** When the heap is empty, supports are exact and none is 0, and no derivation that stands misses a
    head that was there before; what is in limbo is what is lost. *)
Theorem wave_end s : inv s -> suspects s = [] ->
  (forall f, present (rank s) f = true ->
     support s f = Nat.b2n (given f) + supporting holds (rank s) f) /\
  (forall f, present (rank s) f = true -> 1 <= support s f) /\
  (forall f, given f = true -> present (rank s) f = true) /\
  (forall d, holds d = true -> before (head d) = true -> stands (rank s) d = true ->
     present (rank s) (head d) = true) /\
  (forall f, before f = true <-> present (rank s) f = true \/ limbo s f = Some None).
Proof.
  intros I over. destruct I. rewrite over in *. repeat split; auto.
  - intros f p. destruct (support s f) eqn:z; [|lia]. destruct (queued0 f p z).
  - intros d hd bh st. destruct (missing0 d hd bh st) as [|(m & lm & _)]; [assumption|].
    destruct (waiting0 _ _ lm).
  - rewrite kept0. intros [p|l]; auto. right.
    destruct (limbo s f) as [[m|]|] eqn:e; [destruct (waiting0 f m e)|reflexivity|congruence].
  - rewrite kept0. intros [p|l]; auto. right. congruence.
Qed.

End Invariant.
End Wave.
