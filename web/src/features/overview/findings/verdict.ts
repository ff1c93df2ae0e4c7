/** The verdict of the overview: the state, its start and its reason, with the state of each of the last 24 hours. */
import { DEFERRED_SHARE } from '../../../../../src/core/thresholds.ts';
import {
  type CountedPart,
  endedOf,
  outcomesOf,
  PART_RECIPIENTS_MIN,
  shareOf,
} from '../figures/figures.ts';
import { FAR_ABOVE, type Finding, isMostlyDeferred, type RateLimits } from './findings.ts';

/** `quiet`: no mail, so nothing can be said. */
export type HourState = 'good' | 'wait' | 'bad' | 'quiet';

export type Overall = {
  tone: 'good' | 'wait' | 'bad';
  title: string;
  /** The finding in a few words, or the number of findings; null while all is well. */
  cause: string | null;
  /** Empty where the title says all, and where cards show several findings. */
  sentences: string[];
  /** ISO 8601; null while all is well, or when no finding has a beginning. */
  since: string | null;
  /** The finding that the verdict is about, with its action; null when the cards have several. */
  only: Finding | null;
};

/** @param findings those that need somebody: neither snoozed nor low */
export function overallOf(findings: readonly Finding[]): Overall {
  const [first, ...others] = findings;
  if (first === undefined) {
    const sentences = ['Nothing needs attention.'];
    return { tone: 'good', title: 'All is well', cause: null, sentences, since: null, only: null };
  }
  const high = findings.filter(({ weight }) => weight === 'high');
  const state = {
    tone: high.length > 0 ? ('bad' as const) : ('wait' as const),
    title: high.length > 0 ? 'Degraded' : 'Needs attention',
    since: earliest((high.length > 0 ? high : findings).map((one) => one.since ?? null)),
  };
  return others.length === 0
    ? { ...state, cause: first.headline, sentences: beyondHeadline(first), only: first }
    : { ...state, cause: `${findings.length} findings need action`, sentences: [], only: null };
}

function beyondHeadline({ headline, title, detail }: Finding): string[] {
  const isSaid = title.toLowerCase().includes(headline.toLowerCase());
  return [...(isSaid ? [] : [title]), ...(detail === undefined ? [] : [detail])];
}

function earliest(times: readonly (string | null)[]): string | null {
  const known = times.filter((time) => time !== null);
  return known.toSorted()[0] ?? null;
}

/** The state of each hour: by its rates, and by the findings that held then. */
export function statesOf(
  hours: readonly CountedPart[],
  findings: readonly Finding[],
  limits: RateLimits | null,
): HourState[] {
  return hours.map((hour) => {
    const held = findings.filter(({ since }) => since != null && Date.parse(since) < hour.endMs);
    const states = [
      stateByRates(hour, limits),
      ...held.map(({ weight }) => (weight === 'high' ? 'bad' : 'wait')),
    ];
    return (['bad', 'wait', 'good', 'quiet'] as const).find((state) => states.includes(state))!;
  });
}

function stateByRates(hour: CountedPart, limits: RateLimits | null): HourState {
  const attempts = outcomesOf(hour);
  if (attempts === 0) return 'quiet';
  if (limits !== null && endedOf(hour) >= PART_RECIPIENTS_MIN) {
    const bounced = shareOf(hour, 'bounced') ?? 0;
    if (bounced > limits.bounced) return bounced > FAR_ABOVE * limits.bounced ? 'bad' : 'wait';
    if ((shareOf(hour, 'complained') ?? 0) > limits.complained) return 'wait';
  }
  return attempts > DEFERRED_SHARE.attemptsMin && isMostlyDeferred(hour) ? 'wait' : 'good';
}

const STATE_WORDS: Readonly<Record<HourState, string>> = {
  good: 'well',
  wait: 'needed attention',
  bad: 'degraded',
  quiet: 'no mail',
};

/** The states in words, for those who do not see the strip: "no mail until 08:00, well until 11:00, degraded since". */
export function stripText(
  hours: readonly Pick<CountedPart, 'startMs'>[],
  states: readonly HourState[],
): string {
  const runs = states.flatMap((state, index) =>
    index === 0 || states[index - 1] !== state ? [{ state, from: hours[index]!.startMs }] : [],
  );
  return runs
    .map(({ state }, index) => {
      const next = runs[index + 1];
      return `${STATE_WORDS[state]} ${next ? `until ${hourText(next.from)}` : 'now'}`;
    })
    .join(', ');
}

const timeOfDay = new Intl.DateTimeFormat(undefined, { hour: 'numeric', minute: '2-digit' });

export function hourText(ms: number): string {
  return timeOfDay.format(ms);
}
