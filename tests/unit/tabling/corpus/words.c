int total; int longest; int lines;

int measure(int first, int last, int step) {
    int at; int width; int best;
    best = 0;
    at = first;
    while (at < last) {
        width = at - first;
        if (width > best) { best = width; } else { width = best; }
        switch (step) {
            case 1: at = at + 1; break;
            case 2: at = at + 2;
            default: at = at + step;
        }
        if (at == 77) continue;
        total = total + width;
    }
    longest = best;
    return best;
}

int report(int limit) {
    int i; int sum; int last;
    sum = 0;
    last = 0;
    for (i = 0; i < limit; i++) {
        sum = sum + i;
        if (sum > 1000) { last = i; break; }
        do { last = last + 1; sum = sum - last; } while (last < i);
    }
    lines = sum;
    if (last == 0) goto out;
    sum = last;
out:
    return sum;
}
