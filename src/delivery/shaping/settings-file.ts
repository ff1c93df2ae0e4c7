/**
 * Reads the operator's file of limits (LETTERHAUS_SHAPING, docs/shaping.md) at the start. The file is JSON. A file
 * with any problem is refused, with a list of all problems. settings.ts contains the defaults that it replaces.
 */
import { z } from 'zod';
import { DEFAULT_PROVIDER_LIMITS, type ShapingSettings, DEFAULT_SHAPING } from './settings.ts';

const count = (max: number) => z.int().min(1).max(max);
const seconds = (max: number) => z.number().min(0.1).max(max);

const limits = {
  connections: count(1_000),
  messages_per_connection: count(100_000),
  idle_s: seconds(300),
  new_connections_per_minute: count(100_000).nullable(),
  messages_per_minute: count(1_000_000).nullable(),
};

const HOST_SUFFIX = /^[a-z0-9_-]+(\.[a-z0-9_-]+)*$/;
const suffix = z.string().regex(HOST_SUFFIX, 'write the end of host names in lower case');
const suffixes = z.array(suffix).min(1);
const time = seconds(86_400);

const FILE = z
  .strictObject({
    default: z.strictObject(limits).partial(),
    providers: z.record(z.string().min(1), z.strictObject({ ...limits, suffixes }).partial()),
    suspension: z
      .strictObject({ after_failures: count(1_000), first_s: time, longest_s: time })
      .partial(),
    recovery: z
      .strictObject({ hold_down_s: time, step_s: time, try_again_after_s: time })
      .partial(),
    block: z
      .strictObject({ after_refusals: count(1_000), first_s: time, longest_s: time })
      .partial(),
    uplink: z.strictObject({ no_answer_s: time, retry_s: time }).partial(),
  })
  .partial();

type File = z.infer<typeof FILE>;

/** Parses the file. Returns the settings, or one sentence for each problem. */
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

function settingsOf({ default: defaults, providers = {}, ...rules }: File): ShapingSettings {
  const { suspension, recovery, uplink, block } = DEFAULT_SHAPING;
  const entries = Object.entries(providers);
  return {
    default: readSection(DEFAULT_PROVIDER_LIMITS, defaults),
    providers: Object.fromEntries(
      entries.map(([key, limitsInFile]) => [
        key,
        readSection(DEFAULT_PROVIDER_LIMITS, limitsInFile),
      ]),
    ),
    suffixes: entries.flatMap(([key, provider]) =>
      (provider.suffixes ?? defaultSuffixes(key)).map((hostSuffix): [string, string] => [
        hostSuffix,
        key,
      ]),
    ),
    suspension: { ...suspension, ...readSection(suspension, rules.suspension) },
    recovery: { ...recovery, ...readSection(recovery, rules.recovery) },
    uplink: { ...uplink, ...readSection(uplink, rules.uplink) },
    block: { ...block, ...readSection(block, rules.block) },
  };
}

/** Returns the default suffixes: a provider that is named like a domain has all hosts of the domain. */
function defaultSuffixes(key: string): string[] {
  return key.includes('.') && HOST_SUFFIX.test(key) ? [key] : [];
}

/** Returns the settings that the file contains, with the names and units of the defaults. */
function readSection<Settings extends object>(
  defaults: Settings,
  file: Readonly<Record<string, unknown>> = {},
): Partial<Settings> {
  const entries = Object.keys(defaults).map((setting) => {
    const { name, factor } = nameInFile(setting);
    const value = file[name];
    return [setting, typeof value === 'number' ? Math.round(value * factor) : value];
  });
  return Object.fromEntries(
    entries.filter(([, value]) => value !== undefined),
  ) as Partial<Settings>;
}

/** Returns the name of a setting in the file, and the factor of its value: `firstMs` is `first_s`, times 1000. */
export function nameInFile(setting: string): { name: string; factor: number } {
  const isTime = setting.endsWith('Ms');
  const words = (isTime ? setting.slice(0, -2) : setting).replace(/[A-Z]/g, '_$&').toLowerCase();
  return { name: isTime ? `${words}_s` : words, factor: isTime ? 1_000 : 1 };
}
