/**
 * `npm run bench`: measures Letterhaus on this machine, together with the load generator, the database and the
 * receiving server. With --postfix, Postfix and OpenDKIM run in the same rounds.
 *
 * The benchmark fails when something does not work: an email is not accepted, not delivered, or delivered twice. It
 * never fails because of a time. bench/README.md explains the method and has the figures.
 */
import { comparisonOf, measure } from './measure.ts';
import { measureBackup } from './backup.ts';
import { measureBloat } from './bloat.ts';
import { compareVersions, formatComparison } from './compare.ts';
import { measureDashboard } from './dashboard.ts';
import { HELP, readOptions } from './options.ts';
import { whyNoPostfix } from './parts/postfix.ts';
import { measureScale } from './scale.ts';
import { measureSearch } from './search.ts';
import { measureStorage } from './storage.ts';
import { formatReport, reportAsJson } from './report.ts';

async function main(): Promise<number> {
  const options = readOptions(process.argv.slice(2));
  if (options === 'help') {
    process.stdout.write(HELP);
    return 0;
  }
  const problem = 'problem' in options ? options.problem : options.postfix ? whyNoPostfix() : null;
  if (problem !== null || 'problem' in options) {
    process.stderr.write(`bench: ${problem}\n`);
    return 2;
  }
  const signals = countSignals();
  try {
    if (options.scaleTo !== null) {
      process.stdout.write(
        `\n${await measureScale({ ...options, emails: options.scaleTo }, printLine)}`,
      );
      return 0;
    }
    if (options.storageOf !== null) {
      process.stdout.write(
        `\n${await measureStorage({ ...options, emails: options.storageOf }, printLine)}`,
      );
      return 0;
    }
    if (options.bloatOf !== null) {
      process.stdout.write(
        `\n${await measureBloat({ ...options, emails: options.bloatOf }, printLine)}`,
      );
      return 0;
    }
    if (options.backupOf !== null) {
      process.stdout.write(
        `\n${await measureBackup({ ...options, emails: options.backupOf }, printLine)}`,
      );
      return 0;
    }
    if (options.dashboardOf !== null) {
      process.stdout.write(
        `\n${await measureDashboard({ ...options, emails: options.dashboardOf }, printLine)}`,
      );
      return 0;
    }
    if (options.searchOf !== null) {
      process.stdout.write(
        `\n${await measureSearch({ ...options, emails: options.searchOf }, printLine)}`,
      );
      return 0;
    }
    if (options.compare !== null) {
      const comparison = await compareVersions(comparisonOf(options, options.compare), printLine);
      process.stdout.write(
        options.json ? reportAsJson(comparison) : `\n${formatComparison(comparison)}`,
      );
      return 0;
    }
    const report = await measure(options, printLine);
    process.stdout.write(options.json ? reportAsJson(report) : `\n${formatReport(report)}`);
    return 0;
  } catch (error) {
    if (signals.count === 0) throw error;
    process.stderr.write('bench: interrupted\n');
    return 130;
  }
}

function printLine(line: string): void {
  process.stderr.write(`${line}\n`);
}

/**
 * Counts the signals that ask the benchmark to end. Ctrl-C also ends the service under test
 * (test/support/service-process.ts). The measurement then fails and stops its processes, as after any failure. A second
 * Ctrl-C ends the benchmark at once.
 */
function countSignals(): { count: number } {
  const signals = { count: 0 };
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    process.on(signal, () => {
      signals.count += 1;
      // The harness repeats the first signal, for programs that have no handler.
      if (signals.count > 2) process.exit(130);
    });
  }
  return signals;
}

process.exitCode = await main();
