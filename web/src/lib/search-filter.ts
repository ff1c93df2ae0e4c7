/** Filters of the search for emails, `GET /v1/emails?q=`, for links of any screen. */

/** Returns a filter with the value in quotation marks where it needs them, which the grammar cannot escape. */
export function filterBy(operator: string, value: string): string {
  return `${operator}:${/[\s"]/.test(value) ? `"${value.replaceAll('"', '')}"` : value}`;
}
