/**
 * The limits in force: the defaults (shaping-defaults.ts) with what the operator's file replaces.
 * The file (POSTHORN_SHAPING) is JSON, read once at the start and refused as a whole with every
 * problem in it; docs/shaping.md describes it. Everything here survives JSON, because workers get
 * it from the supervisor.
 */
import { z } from 'zod';
import {
  DEFAULT_LIMITS,
  PROVIDER_LIMITS,
  type ProviderLimits,
  RECOVERY_RULES,
  type RecoveryRules,
  SUSPENSION_RULES,
  type SuspensionRules,
  type Slowdown,
  SLOWDOWNS,
} from './shaping-defaults.ts';

export type ShapingSettings = {
  default: Partial<ProviderLimits>;
  providers: Readonly<Record<string, Partial<ProviderLimits>>>;
  /** Host name suffix → provider, before the table of net/providers.ts. */
  suffixes: readonly (readonly [string, string])[];
  suspension: SuspensionRules;
  recovery: RecoveryRules;
};

export const USUAL_SHAPING: ShapingSettings = {
  default: {},
  providers: {},
  suffixes: [],
  suspension: SUSPENSION_RULES,
  recovery: RECOVERY_RULES,
};

const count = (max: number) => z.int().min(1).max(max);
const seconds = (max: number) => z.number().min(0.1).max(max);

const limits = {
  connections: count(1_000).optional(),
  messages_per_connection: count(100_000).optional(),
  idle_s: seconds(300).optional(),
  new_connections_per_minute: count(100_000).nullable().optional(),
  messages_per_minute: count(1_000_000).nullable().optional(),
};

const HOST_SUFFIX = /^[a-z0-9_-]+(\.[a-z0-9_-]+)*$/;
const suffix = z.string().regex(HOST_SUFFIX, 'write the end of host names in lower case');
const providerInFile = z.strictObject({ ...limits, suffixes: z.array(suffix).min(1).optional() });

const FILE = z.strictObject({
  default: z.strictObject(limits).optional(),
  providers: z.record(z.string().min(1), providerInFile).optional(),
  suspension: z
    .strictObject({
      after_failures: count(1_000).optional(),
      first_s: seconds(86_400).optional(),
      longest_s: seconds(86_400).optional(),
    })
    .optional(),
  recovery: z
    .strictObject({
      hold_down_s: seconds(86_400).optional(),
      step_s: seconds(86_400).optional(),
      try_again_after_s: seconds(86_400).optional(),
    })
    .optional(),
});

type File = z.infer<typeof FILE>;
type LimitsInFile = NonNullable<File['default']>;

/** @returns the settings, or one sentence for each problem */
export function parseShaping(text: string): ShapingSettings | { problems: string[] } {
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch (error) {
    return { problems: [`it is not JSON (${(error as Error).message})`] };
  }
  const parsed = FILE.safeParse(json);
  return parsed.success ? settingsOf(parsed.data) : { problems: problemsOf(parsed.error) };
}

function problemsOf(error: z.ZodError): string[] {
  return error.issues.map(({ path, message }) => {
    const where = path.length === 0 ? 'the file' : path.join('.');
    return `${where}: ${message}`;
  });
}

function settingsOf({
  default: usual = {},
  providers = {},
  suspension,
  recovery,
}: File): ShapingSettings {
  const entries = Object.entries(providers);
  return {
    default: limitsIn(usual),
    providers: Object.fromEntries(entries.map(([key, one]) => [key, limitsIn(one)])),
    suffixes: entries.flatMap(([key, { suffixes = [] }]) =>
      suffixes.map((each): [string, string] => [each, key]),
    ),
    suspension: {
      afterFailures: suspension?.after_failures ?? SUSPENSION_RULES.afterFailures,
      firstMs: msOf(suspension?.first_s) ?? SUSPENSION_RULES.firstMs,
      longestMs: msOf(suspension?.longest_s) ?? SUSPENSION_RULES.longestMs,
    },
    recovery: {
      holdDownMs: msOf(recovery?.hold_down_s) ?? RECOVERY_RULES.holdDownMs,
      stepMs: msOf(recovery?.step_s) ?? RECOVERY_RULES.stepMs,
      tryAgainAfterMs: msOf(recovery?.try_again_after_s) ?? RECOVERY_RULES.tryAgainAfterMs,
    },
  };
}

function limitsIn(file: LimitsInFile): Partial<ProviderLimits> {
  const all = {
    connections: file.connections,
    messagesPerConnection: file.messages_per_connection,
    idleMs: msOf(file.idle_s),
    newConnectionsPerMinute: file.new_connections_per_minute,
    messagesPerMinute: file.messages_per_minute,
  };
  const given = Object.entries(all).filter(([, value]) => value !== undefined);
  return Object.fromEntries(given);
}

function msOf(s: number | undefined): number | undefined {
  return s === undefined ? undefined : Math.round(s * 1000);
}

/**
 * The limits of a provider. Where several operators' servers stand side by side (`a.com+b.com`), the
 * strictest of each. A relay is `relay` in the file.
 */
export function limitsOf(settings: ShapingSettings, provider: string): ProviderLimits {
  const usual = { ...DEFAULT_LIMITS, ...settings.default };
  const keys = provider.startsWith('relay ') ? ['relay'] : provider.split('+');
  return keys
    .map((key) => ({ ...usual, ...PROVIDER_LIMITS[key], ...settings.providers[key] }))
    .reduce(strictest);
}

function strictest(one: ProviderLimits, other: ProviderLimits): ProviderLimits {
  return {
    connections: Math.min(one.connections, other.connections),
    messagesPerConnection: Math.min(one.messagesPerConnection, other.messagesPerConnection),
    idleMs: Math.min(one.idleMs, other.idleMs),
    newConnectionsPerMinute: least(one.newConnectionsPerMinute, other.newConnectionsPerMinute),
    messagesPerMinute: least(one.messagesPerMinute, other.messagesPerMinute),
  };
}

function least(one: number | null, other: number | null): number | null {
  return one === null || other === null ? (one ?? other) : Math.min(one, other);
}

/** What a temporary answer asks of all that goes to the provider; null: nothing of that kind. */
export function slowdownFor(provider: string, message: string): Slowdown | null {
  const words = message.toLowerCase();
  const keys = provider.split('+');
  const found = SLOWDOWNS.find(
    (one) => words.includes(one.words) && (one.provider === null || keys.includes(one.provider)),
  );
  return found ?? null;
}
