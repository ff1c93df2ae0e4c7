/**
 * uPlot formats numbers by the language of the browser while it is loaded, and throws where that is no valid one:
 * Chromium under LANG=C says "en-US@posix". Called before uPlot is loaded, this gives it one that is.
 */
export function ensureLanguage(): void {
  try {
    new Intl.NumberFormat(navigator.language);
  } catch {
    Object.defineProperty(navigator, 'language', { value: 'en-US', configurable: true });
  }
}
