# SPDX-License-Identifier: ISC
"""What is counted by the hour, the day or the week is asked within one of
them: the next begins meanwhile once in some ten thousand runs."""
import time

# Some zones are off by half an hour, and the database truncates in its own.
HALF_HOUR, DAY, WEEK = 1800, 86400, 7 * 86400
MONDAY = 4 * DAY  # of the first week that is whole in 1970


def within(period, seconds):
    """Goes on where so many seconds of this one (UTC) are left."""
    while (left := period - (time.time() - MONDAY) % period) < seconds:
        time.sleep(left)
