/** Counts and sizes in words. */

/** An estimate is rounded to two digits: its last digits say nothing. */
export function count(value: number, isEstimate: boolean): string {
  if (!isEstimate || value < 1_000) return value.toLocaleString();
  const unit = 10 ** (Math.floor(Math.log10(value)) - 1);
  return `≈ ${(Math.round(value / unit) * unit).toLocaleString()}`;
}

export function recipients(value: number): string {
  return `${value.toLocaleString()} ${value === 1 ? 'recipient' : 'recipients'}`;
}

const rates = new Intl.NumberFormat(undefined, { style: 'percent', maximumFractionDigits: 1 });

/** Returns a rate of successes. One failure among many is not "100%". */
export function successRate(successes: number, of: number): string {
  if (of === 0) return '–';
  const isBelow = successes < of;
  return rates.format(isBelow ? Math.min(successes / of, 0.999) : 1);
}

/** "48 KB" */
export function sizeInWords(bytes: number): string {
  if (bytes < 1024) return `${bytes} B`;
  const kilobytes = bytes / 1024;
  return kilobytes < 1024 ? `${Math.round(kilobytes)} KB` : `${(kilobytes / 1024).toFixed(1)} MB`;
}

/** Whole megabytes, rounded up. */
export function megabytes(bytes: number): string {
  return `${Math.ceil(bytes / 1024 ** 2).toLocaleString()} MB`;
}
