/**
 * uPlot formats numbers by `navigator.language` when it is loaded, and throws when that is invalid, as "en-US@posix"
 * of Chromium under LANG=C. Call this before uPlot is loaded: it replaces an invalid language.
 */
export function ensureLanguage(): void {
  try {
    new Intl.NumberFormat(navigator.language);
  } catch {
    Object.defineProperty(navigator, 'language', { value: 'en-US', configurable: true });
  }
}
