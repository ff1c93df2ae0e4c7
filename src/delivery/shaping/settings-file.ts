/**
 * The operator's file of limits (LETTERHAUS_SHAPING, docs/shaping.md): JSON, read once at the start and
 * refused as a whole with every problem in it. What it replaces: settings.ts.
 */
import { z } from 'zod';
import { type ProviderLimits, type ShapingSettings, USUAL_SHAPING } from './settings.ts';

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
  block: z
    .strictObject({
      after_refusals: count(1_000).optional(),
      first_s: seconds(86_400).optional(),
      longest_s: seconds(86_400).optional(),
    })
    .optional(),
  uplink: z
    .strictObject({
      no_answer_s: seconds(86_400).optional(),
      retry_s: seconds(86_400).optional(),
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
  uplink,
  block,
}: File): ShapingSettings {
  const entries = Object.entries(providers);
  return {
    default: limitsIn(usual),
    providers: Object.fromEntries(entries.map(([key, one]) => [key, limitsIn(one)])),
    suffixes: entries.flatMap(([key, { suffixes }]) =>
      (suffixes ?? namesIn(key)).map((each): [string, string] => [each, key]),
    ),
    suspension: {
      afterFailures: suspension?.after_failures ?? USUAL_SHAPING.suspension.afterFailures,
      firstMs: msOf(suspension?.first_s) ?? USUAL_SHAPING.suspension.firstMs,
      longestMs: msOf(suspension?.longest_s) ?? USUAL_SHAPING.suspension.longestMs,
    },
    recovery: {
      holdDownMs: msOf(recovery?.hold_down_s) ?? USUAL_SHAPING.recovery.holdDownMs,
      stepMs: msOf(recovery?.step_s) ?? USUAL_SHAPING.recovery.stepMs,
      tryAgainAfterMs: msOf(recovery?.try_again_after_s) ?? USUAL_SHAPING.recovery.tryAgainAfterMs,
    },
    uplink: {
      noAnswerMs: msOf(uplink?.no_answer_s) ?? USUAL_SHAPING.uplink.noAnswerMs,
      retryMs: msOf(uplink?.retry_s) ?? USUAL_SHAPING.uplink.retryMs,
    },
    block: {
      afterRefusals: block?.after_refusals ?? USUAL_SHAPING.block.afterRefusals,
      firstMs: msOf(block?.first_s) ?? USUAL_SHAPING.block.firstMs,
      longestMs: msOf(block?.longest_s) ?? USUAL_SHAPING.block.longestMs,
    },
  };
}

/** A provider that is named by a domain has all hosts of the domain. */
function namesIn(key: string): string[] {
  return key.includes('.') && HOST_SUFFIX.test(key) ? [key] : [];
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
